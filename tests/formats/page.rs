//! What a person sees of a report: Chromium lays the page out, wide and as narrow as a phone, in light and dark, and a
//! script on it measures. Where there is no Chromium, it says so and is skipped.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::latency::latency;
use ringfeed::{DataSetIterator, Loader};
use serde_json::Value;

/// What is measured, on the page itself: how wide it is, where the verdict is, the smallest letters, and the least
/// contrast of a text with what is behind it.
const MEASURE: &str = r#"<script>
addEventListener("load", () => {
  const channels = text => { const all = text.match(/[\d.]+/g).map(Number); return all.length > 3 && all[3] === 0 ? null : all; };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const found = channels(getComputedStyle(at).backgroundColor);
      if (found) return found;
    }
    return [255, 255, 255];
  };
  const seen = { width: innerWidth, wide: document.documentElement.scrollWidth, letters: 99, contrast: 99, cut: [] };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || element.tagName === "SCRIPT") continue;
    const style = getComputedStyle(element);
    if (!element.getClientRects().length) continue;
    seen.letters = Math.min(seen.letters, parseFloat(style.fontSize));
    const [a, b] = [light(channels(style.color)), light(behind(element))];
    seen.contrast = Math.min(seen.contrast, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
  }
  for (const table of document.querySelectorAll(".scroll"))
    if (table.scrollWidth > table.clientWidth) seen.cut.push(table.previousElementSibling.textContent);
  const verdict = document.querySelector(".verdict").getBoundingClientRect();
  seen.verdict = [verdict.top, verdict.bottom];
  seen.charts = [...document.querySelectorAll("svg")].map(svg => [svg.getBoundingClientRect().width, svg.getBoundingClientRect().height]);
  seen.background = channels(getComputedStyle(document.body).backgroundColor);
  parent.postMessage(JSON.stringify(seen), "*");
});
</script>"#;

/// Both widths at once, and what each measured as text.
fn frame(page: &str) -> String {
    let frames =
        ["1000", "375"].map(|width| format!("<iframe src=\"{page}\" width=\"{width}\" height=\"900\"></iframe>"));
    format!(
        "<!doctype html><body>{}<pre></pre><script>onmessage = event => {{ document.querySelector('pre').textContent += \
         event.data + '\\n'; }};</script></body>",
        frames.concat()
    )
}

fn browser() -> Option<&'static str> {
    let is_there = |name: &&str| {
        let version = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(is_there)
}

/// What it printed, unless it takes too long.
fn wait(mut child: Child, output: &Path) -> Option<String> {
    let given_up = Instant::now() + Duration::from_secs(120);
    while Instant::now() < given_up {
        if child.try_wait().unwrap().is_some() {
            return std::fs::read_to_string(output).ok();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

#[test]
fn a_person_sees_the_page_as_a_whole_wide_and_narrow_in_light_and_dark() {
    let Some(browser) = browser() else {
        println!("skipped: there is no Chromium");
        return;
    };
    let mut iterator =
        Loader::csv("fixtures/iris.csv").labels(["virginica"]).batch_size(10).workers(2).build().unwrap();
    for epoch in iterator.epochs(20) {
        epoch.unwrap().for_each(|batch| {
            drop(batch.unwrap());
            latency(Duration::from_millis(1));
        });
    }
    let folder = tempfile::tempdir().unwrap();
    let report = iterator.report().about("a long name of a setting", "/a/path/that/has/no/place/to/break/".repeat(4));
    std::fs::write(folder.path().join("run.html"), report.to_html().replace("</body>", &format!("{MEASURE}</body>")))
        .unwrap();
    let frames = folder.path().join("frames.html");
    std::fs::write(&frames, frame("run.html")).unwrap();
    for (scheme, is_dark) in [("1", false), ("0", true)] {
        let output = folder.path().join(format!("seen-{scheme}"));
        let child = Command::new(browser)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=3000"])
            .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
            .arg(format!("--user-data-dir={}", folder.path().join(format!("profile-{scheme}")).display()))
            .arg(format!("file://{}", frames.display()))
            .stdout(std::fs::File::create(&output).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let Some(dom) = wait(child, &output).filter(|dom| dom.contains("<pre>{")) else {
            println!("skipped: {browser} can't show a page here");
            return;
        };
        let seen = dom.split_once("<pre>").unwrap().1.split_once("</pre>").unwrap().0;
        let seen: Vec<Value> = seen.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(seen.len(), 2, "{dom}");
        for seen in &seen {
            let number = |value: &Value| value.as_f64().unwrap();
            assert!(number(&seen["wide"]) <= number(&seen["width"]), "nothing is beside the screen: {seen}");
            assert_eq!(seen["cut"], Value::Array(Vec::new()), "no table needs to be moved: {seen}");
            assert!(number(&seen["letters"]) >= 12.0, "{seen}");
            assert!(number(&seen["contrast"]) >= 4.5, "{seen}");
            assert!(number(&seen["verdict"][0]) >= 0.0 && number(&seen["verdict"][1]) < 600.0, "on top: {seen}");
            assert_eq!(number(&seen["background"][0]) < 100.0, is_dark, "{seen}");
            let charts = seen["charts"].as_array().unwrap();
            assert!(
                charts.len() == 3 && charts.iter().all(|chart| number(&chart[0]) > 300.0 && number(&chart[1]) > 80.0)
            );
        }
    }
}
