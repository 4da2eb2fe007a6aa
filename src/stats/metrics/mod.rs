//! The statistics of a run, for Prometheus.

mod address;
#[cfg(feature = "metrics")]
mod server;
#[cfg(feature = "metrics")]
mod text;

pub use address::MetricsAddress;
#[cfg(feature = "metrics")]
pub use server::serve_metrics;

#[cfg(not(feature = "metrics"))]
pub(crate) use missing::serve_metrics;

#[cfg(not(feature = "metrics"))]
mod missing {
    use std::net::SocketAddr;

    use crate::error::{Error, ErrorKind, Result};
    use crate::stats::StatsHandle;

    use super::MetricsAddress;

    pub(crate) fn serve_metrics(_: StatsHandle, _: MetricsAddress) -> Result<SocketAddr> {
        let message = "metrics: this Ringfeed was built without them; build it with the feature `metrics`";
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}
