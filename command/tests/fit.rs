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
    assert_eq!(report["fields"], json!(["bill_length_mm", "island"]));
    assert_eq!(report["features"], json!(["bill_length_mm", "bill_length_mm_missing"]));
    assert_eq!(report["categories"], json!([{ "column": "island", "codes": 4 }]));
    let loader = Loader::from(LoaderConfig::load(&settings).unwrap());
    let samples: usize = loader.build().unwrap().map(|batch| batch.unwrap().len()).sum();
    assert_eq!(report["records"], json!(samples));
    assert_eq!(Prepared::load(&saved).unwrap().records(), samples as u64);
    let shown = String::from_utf8(run(&["fit", path]).stdout).unwrap();
    assert!(shown.contains(&format!("fitted to       {samples} records")), "{shown}");

    // A plan says what chooses and prepares samples, and inspecting the file what was fitted.
    let plan = object(&["plan", path, "--json"], 0);
    assert_eq!((&plan["steps"]["split"]["train"], &plan["steps"]["prepared"]), (&json!(0.8), &json!(saved)), "{plan}");
    assert_eq!(plan["steps"].as_object().unwrap().len(), 2, "{plan}");
    let shown = String::from_utf8(run(&["plan", path]).stdout).unwrap();
    assert!(shown.contains("split             part train, ") && shown.contains("prepared          /"), "{shown}");
    let saved = saved.to_str().unwrap();
    let inspected = object(&["inspect", saved, "--json"], 0);
    assert_eq!((&inspected["records"], inspected.get("config")), (&json!(samples), None));
    assert_eq!((&inspected["features"], &inspected["categories"]), (&report["features"], &report["categories"]));
    let shown = String::from_utf8(run(&["inspect", saved]).stdout).unwrap();
    assert!(shown.contains("a fitted recipe") && shown.contains("bill_length_mm_missing"), "{shown}");
    let damaged = std::fs::read_to_string(saved).unwrap().replace("\"records\"", "\"recordz\"");
    std::fs::write(folder.path().join("damaged.json"), damaged).unwrap();
    let error = object(&["inspect", folder.path().join("damaged.json").to_str().unwrap(), "--json"], 1);
    assert!(error["error"]["message"].as_str().unwrap().contains("recordz"), "{error}");

    // Records are chosen by the name of a tensor, too.
    let named = text.replace("split = ", "filter = \"kind == 'Adelie'\"\n# ");
    std::fs::write(&settings, named.replace("species = \"class\"", "kind = { from = \"species\", class = [] }"))
        .unwrap();
    assert_eq!(object(&["fit", path, "--json"], 0)["records"], json!(152));

    std::fs::write(&settings, text.replace("[prepare.columns]", "[other]")).unwrap();
    let error = object(&["fit", path, "--json"], 1)["error"].clone();
    assert_eq!(error["kind"], json!("config"), "{error}");
    std::fs::write(&settings, text.replace("prepared = ", "# ")).unwrap();
    let error = object(&["fit", path, "--json"], 1)["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("name the file to save it in"), "{error}");
    std::fs::write(&settings, text.replace("bill_length_mm =", "bill_lengthmm =")).unwrap();
    let error = object(&["fit", path, "--json"], 1)["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("did you mean \"bill_length_mm\"?"), "{error}");
}

#[test]
fn windows_of_a_recipe_are_shown_where_only_the_fitted_file_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let fits = folder.path().join("fit.toml");
    let source = format!("[source]\npath = {:?}\n", fixture("iris-species.csv"));
    let recipe = r#"
        [prepare]
        windows = { length = 8, horizon = 2, series = "species", part = [0.0, 0.8] }
        [prepare.columns]
        sepal_length = { number = { impute = "median", scale = "standardise" } }
    "#;
    std::fs::write(&fits, format!("prepared = \"prepared.json\"\n{source}{recipe}")).unwrap();
    let windows = json!({ "length": 8, "horizon": 2, "stride": 1, "series": "species", "part": [0.0, 0.8] });
    let report = object(&["fit", fits.to_str().unwrap(), "--json"], 0);
    assert_eq!((&report["windows"], &report["records"]), (&windows, &json!(120)), "{report}");
    let saved = folder.path().join("prepared.json");
    let inspected = object(&["inspect", saved.to_str().unwrap(), "--json"], 0);
    assert_eq!(inspected["windows"], windows, "{inspected}");
    let shown = String::from_utf8(run(&["inspect", saved.to_str().unwrap()]).stdout).unwrap();
    assert!(shown.contains("8 records of each species, and the 2 after them"), "{shown}");

    let trains = folder.path().join("train.toml");
    std::fs::write(&trains, format!("prepared = \"prepared.json\"\nbatch_size = 31\n{source}")).unwrap();
    let plan = object(&["plan", trains.to_str().unwrap(), "--json"], 0);
    assert_eq!((&plan["windows"], &plan["steps"]["windows"]), (&windows, &windows), "{plan}");
    // 3 series of 40 records, and 10 to a window.
    assert_eq!((&plan["samples"], &plan["batches_per_epoch"]), (&json!(93), &json!(3)), "{plan}");
}
