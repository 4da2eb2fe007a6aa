//! The figures of a run as Prometheus scrapes them: over HTTP by a plain client, and read by a parser that takes the format at its
//! word.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use ringfeed::device::{HostDevice, Upload};
use ringfeed::stats::{StatsHandle, serve_metrics};
use ringfeed::{DataSetIterator, ErrorKind, Loader, LoaderConfig};

fn loader() -> Loader {
    Loader::csv("fixtures/iris.csv").labels(["virginica"]).batch_size(50).workers(2)
}

/// What a server answers: its status, its head and its body.
fn ask(address: SocketAddr, method: &str, path: &str) -> (u16, String, String) {
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

/// The values by name and labels; panics at what is not as the format says.
fn parsed(text: &str) -> BTreeMap<String, f64> {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    assert!(text.ends_with('\n'));
    let (mut families, mut values) = (BTreeSet::new(), BTreeMap::new());
    let (mut family, mut kind) = (String::new(), String::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(is_name(name) && name.starts_with("ringfeed_") && help.ends_with('.'), "{line}");
            assert!(families.insert(name.to_owned()), "one family in one place: {name}");
            let told = lines.next().unwrap().strip_prefix("# TYPE ").unwrap();
            let (of, told) = told.split_once(' ').unwrap();
            assert!(of == name && ["counter", "gauge", "histogram"].contains(&told), "{told}");
            assert_eq!(name.ends_with("_total"), told == "counter", "{name}");
            (family, kind) = (name.to_owned(), told.to_owned());
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let value: f64 = value.parse().unwrap();
        assert!(value.is_finite() && value >= 0.0, "{line}");
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let suffixes: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        assert!(suffixes.iter().any(|suffix| name.strip_suffix(suffix) == Some(&family)), "{line} in {family}");
        for label in labels.strip_suffix('}').unwrap().split(',').filter(|label| !label.is_empty()) {
            let (label, of) = label.split_once('=').unwrap();
            let of = of.strip_prefix('"').and_then(|of| of.strip_suffix('"')).unwrap();
            assert!(is_name(label) && !of.contains(['"', '\\']), "{line}");
        }
        assert_eq!(values.insert(series.to_owned(), value), None, "twice: {series}");
    }
    values
}

/// Whether nobody listens there any more, which may take a moment.
fn is_closed(address: SocketAddr) -> bool {
    let given_up = Instant::now() + Duration::from_secs(60);
    while Instant::now() < given_up {
        if TcpStream::connect(address).is_err() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn a_scrape_has_the_figures_and_ends_with_the_iterator() {
    let mut iterator = loader().build().unwrap();
    let address = serve_metrics(iterator.stats_handle(), 0.into()).unwrap();
    assert!(address.ip().is_loopback() && address.port() != 0);
    for epochs in 1..=2u32 {
        iterator.epoch().unwrap().for_each(|batch| drop(batch.unwrap()));
        let (status, head, body) = ask(address, "GET", "/metrics");
        assert!(status == 200 && head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
        let values = parsed(&body);
        let value = |series: &str| *values.get(series).unwrap_or_else(|| panic!("{series} in {body}"));
        let epochs = f64::from(epochs);
        assert_eq!(value("ringfeed_samples_total"), 150.0 * epochs);
        assert_eq!((value("ringfeed_batches_total"), value("ringfeed_workers")), (3.0 * epochs, 2.0));
        assert_eq!(value("ringfeed_trainer_wait_seconds_count"), 3.0 * epochs);
        assert_eq!(value("ringfeed_trainer_wait_seconds_bucket{le=\"+Inf\"}"), 3.0 * epochs);
        assert!(value("ringfeed_stage_busy_seconds_total{stage=\"decode\"}") > 0.0);
        assert!(value("ringfeed_read_bytes_total{stage=\"read\"}") > 1000.0);
        let mut buckets: Vec<(f64, f64)> = values
            .iter()
            .filter_map(|(series, count)| {
                let le = series.strip_prefix("ringfeed_trainer_step_seconds_bucket{le=\"")?.strip_suffix("\"}")?;
                Some((le.replace("+Inf", "inf").parse().unwrap(), *count))
            })
            .collect();
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(buckets.len() == 15 && buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{buckets:?}");
    }
    assert_eq!(ask(address, "GET", "/metrics?x=1").0, 200);
    assert_eq!(ask(address, "HEAD", "/metrics").0, 200);
    assert_eq!((ask(address, "GET", "/").0, ask(address, "POST", "/metrics").0), (404, 405));
    drop(iterator);
    assert!(is_closed(address));
}

#[test]
fn uploads_have_figures_of_their_own() {
    let mut uploaded = Upload::to(HostDevice::new()).start(loader().build().unwrap()).unwrap();
    let address = serve_metrics(uploaded.stats_handle(), 0.into()).unwrap();
    uploaded.by_ref().for_each(|batch| drop(batch.unwrap()));
    let values = parsed(&ask(address, "GET", "/metrics").2);
    assert_eq!(values["ringfeed_upload_batches_total"], 3.0);
    assert!(values.contains_key("ringfeed_upload_wait_seconds_total{cause=\"copy\"}"));
}

#[test]
fn settings_serve_while_the_iterator_lives_and_the_address_is_free_for_the_next() {
    // A port that was free a moment ago; another program may have been given it since.
    let (address, iterator) = (0..20)
        .find_map(|_| {
            let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let settings = format!("metrics = {}\nsource = {{ path = \"fixtures/iris.csv\" }}\n", address.port());
            let config: LoaderConfig = toml::from_str(&settings).unwrap();
            Some((address, Loader::from(config).build().ok()?))
        })
        .unwrap();
    assert_eq!(ask(address, "GET", "/metrics").0, 200);
    let taken = loader().metrics(address).build().err().unwrap();
    assert!(taken.kind() == ErrorKind::Io && taken.to_string().contains("give another address"), "{taken}");
    drop(iterator);
    let again = loader().metrics(address).build().unwrap();
    assert_eq!(parsed(&ask(address, "GET", "/metrics").2)["ringfeed_samples_total"], 0.0);
    drop(again);
    assert!(is_closed(address));
}

#[test]
fn without_an_iterator_nothing_is_served() {
    let address = serve_metrics(StatsHandle::default(), 0.into()).unwrap();
    assert!(is_closed(address));
    let wrong = toml::from_str::<LoaderConfig>("metrics = \"nowhere\"").unwrap_err();
    assert!(wrong.to_string().contains("give a port, such as 9184"), "{wrong}");
}
