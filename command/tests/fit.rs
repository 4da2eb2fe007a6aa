//! `ringfeed fit`: what it writes is what loaders of the same settings read.

mod common;

use common::{fixture, object, run};
use ringfeed::prepare::Prepared;
use ringfeed::{Loader, LoaderConfig};
use serde_json::json;

#[test]
fn a_recipe_is_fitted_and_saved_and_then_read_by_loaders() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("loader.toml");
    let text = format!(
        r#"
        prepared = "prepared.json"
        split = {{ train = 0.8, test = 0.2, part = "train" }}
        [source]
        path = {:?}
        [fields]
        species = "class"
        [prepare.columns]
        bill_length_mm = {{ number = {{ impute = "median", mask = true, scale = "standardise" }} }}
        island = {{ category = {{ unknown = true }} }}
        "#,
        fixture("penguins.csv")
    );
    std::fs::write(&settings, &text).unwrap();
    let path = settings.to_str().unwrap();
    let report = object(&["fit", path, "--json"], 0);
    let saved = folder.path().join("prepared.json");
    assert_eq!(report["prepared"], json!(saved));
    assert_eq!(report["features"], json!(["bill_length_mm", "bill_length_mm_missing"]));
    assert_eq!(report["categories"], json!([{ "column": "island", "codes": 4 }]));
    let loader = Loader::from(LoaderConfig::load(&settings).unwrap());
    let samples: usize = loader.build().unwrap().map(|batch| batch.unwrap().len()).sum();
    assert_eq!(report["records"], json!(samples));
    assert_eq!(Prepared::load(&saved).unwrap().records(), samples as u64);
    let shown = String::from_utf8(run(&["fit", path]).stdout).unwrap();
    assert!(shown.contains(&format!("fitted to       {samples} records")), "{shown}");

    std::fs::write(&settings, text.replace("[prepare.columns]", "[other]")).unwrap();
    let error = object(&["fit", path, "--json"], 1)["error"].clone();
    assert_eq!(error["kind"], json!("config"), "{error}");
    std::fs::write(&settings, text.replace("prepared = ", "# ")).unwrap();
    let error = object(&["fit", path, "--json"], 1)["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("say in which file"), "{error}");
    std::fs::write(&settings, text.replace("bill_length_mm =", "bill_lengthmm =")).unwrap();
    let error = object(&["fit", path, "--json"], 1)["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("did you mean \"bill_length_mm\"?"), "{error}");
}
