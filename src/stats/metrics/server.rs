use std::io::ErrorKind as IoErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use tiny_http::{Header, Method, Request, Response, Server};

use crate::error::{Error, ErrorKind, Result};
use crate::stats::StatsHandle;

use super::MetricsAddress;
use super::text::to_text;

/// How often a server checks whether its iterator still exists.
const LOOK_UP: Duration = Duration::from_millis(100);
/// How long to wait for an address that is in use: the address of an iterator that was just dropped is free soon.
const IN_USE: Duration = Duration::from_secs(3);

/// Serves the statistics of a run at `/metrics`, in Prometheus' text format, until its iterator drops. Returns the
/// address; for port 0, with the port that the system chose.
///
/// A child process that is forked in the meantime, and does not start another program, inherits the server's socket.
/// The child keeps the port in use as long as it lives, but does not answer. So fork before you call this, or serve at
/// port 0.
///
/// ```
/// use ringfeed::{DataSetIterator, Loader};
/// use ringfeed::stats::serve_metrics;
///
/// let mut train = Loader::csv("fixtures/iris.csv").labels(["virginica"]).build()?;
/// let address = serve_metrics(train.stats_handle(), 0.into())?;
/// println!("scrape http://{address}/metrics");
/// # Ok::<(), ringfeed::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::Io`] if the address is not available.
pub fn serve_metrics(figures: StatsHandle, address: MetricsAddress) -> Result<SocketAddr> {
    let refused = |error: &dyn std::fmt::Display| {
        let message = format!("metrics: {address}: {error}; give another address, each loader one of its own");
        Error::new(ErrorKind::Io, message)
    };
    let listener = listen(address.0).map_err(|error| refused(&error))?;
    let bound = listener.local_addr().map_err(|error| refused(&error))?;
    let server = Server::from_listener(listener, None).map_err(|error| refused(&error))?;
    let serve = move || {
        while figures.is_alive() {
            match server.recv_timeout(LOOK_UP) {
                Ok(Some(request)) => answer(request, &figures),
                Ok(None) => {}
                Err(error) => return tracing::warn!(%error, "metrics are no longer served"),
            }
        }
    };
    thread::Builder::new().name("ringfeed-metrics".to_owned()).spawn(serve).map_err(|error| refused(&error))?;
    tracing::info!("metrics: http://{bound}/metrics");
    Ok(bound)
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let given_up = Instant::now() + IN_USE;
    loop {
        match TcpListener::bind(address) {
            Err(error) if error.kind() == IoErrorKind::AddrInUse && Instant::now() < given_up => {
                thread::sleep(IN_USE / 60);
            }
            bound => return bound,
        }
    }
}

fn answer(request: Request, figures: &StatsHandle) {
    let is_read = matches!(request.method(), Method::Get | Method::Head);
    let is_metrics = request.url().split('?').next() == Some("/metrics");
    let (status, text) = match (is_read, is_metrics) {
        (false, _) => (405, "figures are only read here\n".to_owned()),
        (true, false) => (404, "see /metrics\n".to_owned()),
        (true, true) => match figures.stats() {
            Some(stats) => (200, to_text(&stats)),
            None => (503, "the run has ended\n".to_owned()),
        },
    };
    let mut response = Response::from_string(text).with_status_code(status);
    if let Ok(header) = Header::from_bytes("Content-Type", "text/plain; version=0.0.4; charset=utf-8") {
        response.add_header(header);
    }
    // The client may be gone.
    let _ = request.respond(response);
}
