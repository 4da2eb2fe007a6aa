/// Methods of all fields that consist of a decoder's options: they have a geometry.
macro_rules! of_options {
    ($field:ident, $options:ty, $what:literal, $alike:literal) => {
        impl $field {
            #[doc = concat!("Everything that ", $what, " have options for.")]
            pub fn with(options: $options) -> Self {
                Self(options)
            }

            pub(crate) fn options(&self) -> &$options {
                &self.0
            }

            /// Names its geometry `name`, unless it has one.
            pub(in crate::read) fn name_geometry(&mut self, name: &str) {
                self.0.geometry.get_or_insert_with(|| name.to_owned());
            }

            #[doc = $alike]
            #[must_use]
            pub fn geometry(mut self, name: impl Into<String>) -> Self {
                self.0.geometry = Some(name.into());
                self
            }
        }
    };
}
pub(super) use of_options;
