//! Fitted preprocessing of tables, which needs the feature `prepare`: this build was made without it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::read::Windows;

const NEEDED: &str = "this setting needs Ringfeed's feature `prepare`";

macro_rules! left_out {
    ($(#[$docs:meta] $name:ident,)*) => {$(
        #[$docs]
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum $name {}

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                match *self {}
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
                Err(serde::de::Error::custom(NEEDED))
            }
        }
    )*};
}

left_out! {
    /// Replaces the origin of a fitted recipe. It has no values.
    PreparedConfig,
    /// Replaces a recipe. It has no values.
    Recipe,
}

impl PreparedConfig {
    pub(crate) fn path(&self) -> Option<&Path> {
        match *self {}
    }

    pub(crate) fn path_mut(&mut self) -> Option<&mut PathBuf> {
        match *self {}
    }

    pub(crate) fn inline_windows(&self) -> Option<Option<&Windows>> {
        match *self {}
    }
}

impl Recipe {
    pub(crate) fn value_faults(&self) -> Vec<String> {
        match *self {}
    }

    pub(crate) fn missing_tables(&self) -> Vec<String> {
        match *self {}
    }

    pub(crate) fn own_windows(&self) -> Option<&Windows> {
        match *self {}
    }

    pub(crate) fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        std::iter::empty()
    }
}
