use crate::names::Names;

/// What is known of a run before it begins.
pub(crate) struct About {
    #[cfg_attr(not(feature = "live"), expect(dead_code, reason = "only a dashboard says it"))]
    pub(crate) path: String,
    pub(crate) names: Names,
    /// Of the whole run, where it is known.
    pub(crate) batches: Option<u64>,
}

/// What shows how a run goes.
pub(crate) trait Watch {
    /// A batch was taken.
    fn stepped(&mut self) {}

    /// Somebody wants the run to end now.
    fn is_stopped(&self) -> bool {
        false
    }
}
