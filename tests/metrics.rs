//! The figures of a run as Prometheus scrapes them: over HTTP by a plain client, and read by a parser that takes the
//! format at its word; and by Prometheus itself and its own check of names, where they are installed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/until.rs"]
mod until;
#[path = "common/watchdog.rs"]
mod watchdog;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use ringfeed::device::{HostDevice, Upload};
use ringfeed::stats::{StatsHandle, serve_metrics};
use ringfeed::{DataSetIterator, ErrorKind, Loader, LoaderConfig};
use serde_json::Value;
use tempfile::TempDir;
use until::until;

fn loader() -> Loader {
    watchdog::watch();
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
    assert_histograms(&values);
    values
}

/// Histograms, each with its buckets (the bounds and how many times were no longer), by the series of their counts.
fn histograms(values: &BTreeMap<String, f64>) -> BTreeMap<String, Vec<(f64, f64)>> {
    let mut found = BTreeMap::<String, Vec<(f64, f64)>>::new();
    for (series, count) in values {
        let Some((name, labels)) = series.split_once("_bucket{") else { continue };
        let (others, bound) = labels.strip_suffix("\"}").unwrap().split_once("le=\"").unwrap();
        let others = others.strip_suffix(',').map_or(String::new(), |others| format!("{{{others}}}"));
        let bound = bound.replace("+Inf", "inf").parse().unwrap();
        found.entry(format!("{name}_count{others}")).or_default().push((bound, *count));
    }
    found.values_mut().for_each(|buckets| buckets.sort_by(|a, b| a.0.total_cmp(&b.0)));
    found
}

/// Their counts never fall, end at infinity with all times, and fit the sums.
fn assert_histograms(values: &BTreeMap<String, f64>) {
    for (series, buckets) in histograms(values) {
        let (last, count) = (buckets.last().unwrap(), values[&series]);
        assert!(buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{series}: {buckets:?}");
        assert!(last.0.is_infinite() && last.1 == count, "{series} {count}: {buckets:?}");
        let sum = values[&series.replace("_count", "_sum")];
        assert!(count > 0.0 || sum == 0.0, "{series}: {sum} s of no times");
    }
}

/// Waits until nobody listens there any more.
fn until_closed(address: SocketAddr) {
    until("nobody listens there", || TcpStream::connect(address).is_err());
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
        assert_eq!(value("ringfeed_deliver_seconds_count"), 3.0 * epochs);
        assert!(value("ringfeed_deliver_seconds_sum") > 0.0);
        // Some batches of the next epoch may have theirs already.
        assert!(value("ringfeed_slot_wait_seconds_count") >= 3.0 * epochs);
        assert!(value("ringfeed_stage_busy_seconds_total{stage=\"decode\"}") > 0.0);
        assert!(value("ringfeed_read_bytes_total{stage=\"read\"}") > 1000.0);
        // Some samples of the next epoch may have been through it already.
        for stage in ["read", "decode"] {
            assert!(value(&format!("ringfeed_stage_sample_seconds_count{{stage=\"{stage}\"}}")) >= 150.0 * epochs);
            let [sum, busy] = ["stage_sample_seconds_sum", "stage_busy_seconds_total"]
                .map(|name| value(&format!("ringfeed_{name}{{stage=\"{stage}\"}}")));
            assert_eq!(sum, busy);
        }
        assert!(value("ringfeed_stage_batch_seconds_count{stage=\"plan\"}") >= 3.0 * epochs);
        assert_eq!(value("ringfeed_stage_batch_seconds_count{stage=\"settle\"}"), 0.0, "no record is bad");
        let histograms = histograms(&values);
        assert!(histograms.values().all(|buckets| buckets.len() == 15), "{histograms:?}");
        let timed: Vec<&str> = histograms.keys().map(String::as_str).collect();
        let expected = [
            "ringfeed_deliver_seconds_count",
            "ringfeed_slot_wait_seconds_count",
            "ringfeed_stage_batch_seconds_count{stage=\"plan\"}",
            "ringfeed_stage_batch_seconds_count{stage=\"settle\"}",
            "ringfeed_stage_sample_seconds_count{stage=\"decode\"}",
            "ringfeed_stage_sample_seconds_count{stage=\"read\"}",
            "ringfeed_trainer_step_seconds_count",
            "ringfeed_trainer_wait_seconds_count",
        ];
        assert_eq!(timed, expected);
    }
    assert_eq!(ask(address, "GET", "/metrics?x=1").0, 200);
    assert_eq!(ask(address, "HEAD", "/metrics").0, 200);
    assert_eq!((ask(address, "GET", "/").0, ask(address, "POST", "/metrics").0), (404, 405));
    drop(iterator);
    until_closed(address);
}

#[test]
fn uploads_have_figures_of_their_own() {
    let mut uploaded = Upload::to(HostDevice::new()).start(loader().build().unwrap()).unwrap();
    let address = serve_metrics(uploaded.stats_handle(), 0.into()).unwrap();
    uploaded.by_ref().for_each(|batch| drop(batch.unwrap()));
    let values = parsed(&ask(address, "GET", "/metrics").2);
    assert_eq!(values["ringfeed_upload_batches_total"], 3.0);
    assert!(values.contains_key("ringfeed_upload_wait_seconds_total{cause=\"copy\"}"));
    assert!(values["ringfeed_upload_seconds_count"] <= 3.0);
    assert!(values.contains_key("ringfeed_upload_seconds_bucket{le=\"+Inf\"}"));
    assert_eq!(values["ringfeed_upload_slot_wait_seconds_count"], 3.0);
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
    // The server that was there may take some time to end.
    let again = (0..50).find_map(|_| loader().metrics(address).build().ok()).unwrap();
    assert_eq!(parsed(&ask(address, "GET", "/metrics").2)["ringfeed_samples_total"], 0.0);
    drop(again);
    until_closed(address);
}

#[test]
fn without_an_iterator_nothing_is_served() {
    let address = serve_metrics(StatsHandle::default(), 0.into()).unwrap();
    until_closed(address);
    let wrong = toml::from_str::<LoaderConfig>("metrics = \"nowhere\"").unwrap_err();
    assert!(wrong.to_string().contains("give a port, such as 9184"), "{wrong}");
}

/// Whether a program is installed; says which test is skipped otherwise.
fn has(program: &str) -> bool {
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_there = version.is_ok_and(|status| status.success());
    if !is_there {
        println!("skipped: there is no {program}");
    }
    is_there
}

#[test]
fn names_units_and_help_are_as_prometheus_wants_them() {
    if !has("promtool") {
        return;
    }
    let mut uploaded = Upload::to(HostDevice::new()).start(loader().build().unwrap()).unwrap();
    let address = serve_metrics(uploaded.stats_handle(), 0.into()).unwrap();
    uploaded.by_ref().for_each(|batch| drop(batch.unwrap()));
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut check = promtool.spawn().unwrap();
    check.stdin.take().unwrap().write_all(ask(address, "GET", "/metrics").2.as_bytes()).unwrap();
    let checked = check.wait_with_output().unwrap();
    assert!(checked.status.success() && checked.stderr.is_empty(), "{checked:?}");
}

/// A Prometheus that scrapes one address, and ends with this.
struct Prometheus {
    child: Child,
    address: SocketAddr,
    scraped: SocketAddr,
    folder: TempDir,
}

impl Prometheus {
    fn start(scraped: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let config = folder.path().join("prometheus.yml");
        let settings = format!(
            "global: {{ scrape_interval: 500ms }}\nscrape_configs:\n  - job_name: ringfeed\n    static_configs: [{{ targets: \
             [\"{scraped}\"] }}]\n"
        );
        std::fs::write(&config, settings).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, address, scraped, folder }
    }

    /// What a query gives: labels and values. `None` while it does not answer.
    fn query(&self, query: &str) -> Option<Vec<(Value, f64)>> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        TcpStream::connect(self.address).ok()?;
        let (status, _, body) = ask(self.address, "GET", &format!("/api/v1/query?query={encoded}"));
        if status == 503 {
            // It has not begun.
            return None;
        }
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &answer["status"]), (200, &"success".into()), "{query}: {body}");
        let rows = answer["data"]["result"].as_array().unwrap().iter();
        let value = |row: &Value| row["value"][1].as_str().unwrap().parse().unwrap();
        Some(rows.map(|row| (row["metric"].clone(), value(row))).collect())
    }

    /// Waits until a query gives something that is as it should be; `meanwhile` is done before each time of asking.
    fn wait_for(&mut self, query: &str, is_right: impl Fn(&[(Value, f64)]) -> bool, mut meanwhile: impl FnMut()) {
        let what = format!("{query} in {}", self.folder.path().display());
        until(&what, || {
            if self.child.try_wait().unwrap().is_some() {
                // Somebody else was given its port meanwhile.
                *self = Self::start(self.scraped);
            }
            meanwhile();
            self.query(query).is_some_and(|found| is_right(&found))
        });
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The queries of the guide.
fn queries() -> Vec<String> {
    let guide = std::fs::read_to_string("src/guide/bottleneck.md").unwrap();
    let block = guide.split("```text\n").map(|block| block.split("```").next().unwrap());
    let block = block.filter(|block| block.starts_with("rate(")).map(str::to_owned);
    block.flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn prometheus_scrapes_a_run_and_answers_the_queries_of_the_guide() {
    if !has("prometheus") {
        return;
    }
    let mut iterator = loader().build().unwrap();
    let address = serve_metrics(iterator.stats_handle(), 0.into()).unwrap();
    let mut prometheus = Prometheus::start(address);
    prometheus.wait_for("up{job=\"ringfeed\"}", |up| matches!(up, [(_, 1.0)]), || ());
    for epochs in 1..=2u32 {
        iterator.epoch().unwrap().for_each(|batch| drop(batch.unwrap()));
        let samples = 150.0 * f64::from(epochs);
        prometheus.wait_for("ringfeed_samples_total", |found| matches!(found, [(_, n)] if *n == samples), || ());
    }
    // A histogram is one to it, too.
    let waits = "histogram_quantile(0.5, ringfeed_trainer_wait_seconds_bucket)";
    prometheus.wait_for(waits, |found| matches!(found, [(_, wait)] if *wait >= 0.0), || ());
    let queries = queries();
    assert_eq!(queries.len(), 4);
    for query in queries {
        let is_right = |found: &[(Value, f64)]| !found.is_empty() && found.iter().all(|(_, value)| *value >= 0.0);
        prometheus.wait_for(&query, is_right, || iterator.epoch().unwrap().for_each(|batch| drop(batch.unwrap())));
    }
    let halves = "histogram_quantile(0.5, ringfeed_stage_sample_seconds_bucket{stage=\"decode\"})";
    prometheus.wait_for(halves, |found| matches!(found, [(_, time)] if *time > 0.0 && *time < 1.0), || ());
    let stages = prometheus.query("ringfeed_stage_samples_total").unwrap();
    assert!(stages.iter().any(|(labels, count)| labels["stage"] == "decode" && *count >= 300.0), "{stages:?}");
}
