use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::PageSource;

use super::{Device, HostDevice};

/// A device, by its name in settings and on the command line: `host`, or `cuda:0`, `cuda:1` and so on.
///
/// ```
/// use ringfeed::device::DeviceName;
///
/// assert_eq!("cuda:1".parse::<DeviceName>()?, DeviceName::Cuda(1));
/// assert_eq!(DeviceName::Host.to_string(), "host");
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
#[non_exhaustive]
pub enum DeviceName {
    /// [`HostDevice`].
    Host,
    /// `CudaDevice`, by the driver's number, from 0.
    Cuda(usize),
}

impl DeviceName {
    /// Host memory that the device copies from fastest: page-locked for a CUDA device, ordinary pages for the host.
    /// Opens the device; no memory is locked before a ring needs it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Device`] if there is no such device; [`ErrorKind::Unsupported`] if Ringfeed was built without
    /// support for it.
    pub fn pages(self) -> Result<Box<dyn PageSource>> {
        match self {
            Self::Host => Ok(Box::new(HostDevice::new().pages())),
            #[cfg(feature = "cuda")]
            Self::Cuda(ordinal) => Ok(Box::new(super::CudaDevice::open(ordinal)?.pages())),
            #[cfg(not(feature = "cuda"))]
            Self::Cuda(_) => {
                let message = format!("{self}: this ringfeed was built without CUDA; build it with the feature `cuda`");
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

impl FromStr for DeviceName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let ordinal = match name.split_once(':') {
            None if name == "host" => return Ok(Self::Host),
            None if name == "cuda" => Some(0),
            Some(("cuda", ordinal)) => ordinal.parse().ok(),
            _ => None,
        };
        ordinal.map(Self::Cuda).ok_or_else(|| {
            let message = format!("no device {name:?}; there are `host` and `cuda:0`, `cuda:1` and so on");
            Error::new(ErrorKind::Config, message)
        })
    }
}

impl TryFrom<String> for DeviceName {
    type Error = Error;

    fn try_from(name: String) -> Result<Self> {
        name.parse()
    }
}

impl From<DeviceName> for String {
    fn from(name: DeviceName) -> Self {
        name.to_string()
    }
}
