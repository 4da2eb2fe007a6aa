//! A table with gaps and names, from training to a server that answers for one record:
//! `cargo run -p examples --bin penguins train`, then `cargo run -p examples --bin penguins serve`, and
//! `curl -d '{"island": "Dream", "bill_length_mm": 46.5, "bill_depth_mm": null}' localhost:8080`.

use std::path::Path;

use ringfeed::prepare::{Median, MostFrequent, Prepared, Recipe, category, number};
use ringfeed::{DataSet, Loader, order::Split};
use tiny_http::{Response, Server};

type Done<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const SPECIES: [&str; 3] = ["Adelie", "Chinstrap", "Gentoo"];

fn main() -> Done<()> {
    match std::env::args().nth(1).as_deref() {
        Some("serve") => serve(&Server::http("127.0.0.1:8080")?, Path::new("."), usize::MAX),
        _ => train(Path::new(".")).map(|right| println!("{:.1} % of the test part are right", 100.0 * right)),
    }
}

fn train(folder: &Path) -> Done<f32> {
    let recipe = Recipe::new()
        .columns(["bill_length_mm", "bill_depth_mm", "flipper_length_mm"], number().impute(Median).mask().standardise())
        .column("island", category().one_hot().unknown())
        .column("sex", category().one_hot().impute(MostFrequent));
    let table = Loader::open("fixtures/penguins.csv")?.split(Split::train(0.8));
    let prepared = recipe.fit(&table)?; // one pass, over the training part alone
    prepared.save(folder.join("prepared.json"))?;

    let mut model = vec![vec![0.0; prepared.feature_names().len()]; SPECIES.len()]; // a row of weights for each species
    let rows = table.prepare(&prepared).field("species", ringfeed::field::Class::of(SPECIES)).batch_size(16);
    for epoch in rows.clone().shuffle(42).build()?.epochs(20) {
        see(&mut model, epoch?, 0.05)?;
    }
    std::fs::write(folder.join("model.json"), serde_json::to_vec(&model)?)?;
    see(&mut model, rows.split(Split::train(0.8).rest()).build()?, 0.0)
}

/// Shows the model these batches, where it learns from its mistakes at this rate (a perceptron). Gives the share that
/// was right.
fn see(model: &mut [Vec<f32>], batches: impl Iterator<Item = ringfeed::Result<DataSet>>, rate: f32) -> Done<f32> {
    let mut right = Vec::new();
    for batch in batches {
        let batch = batch?;
        for (features, species) in batch.rows::<f32>("features")?.zip(batch.i64("species")?) {
            let (guess, species) = (likeliest(model, features), *species as usize);
            for (nth, x) in features.iter().enumerate().filter(|_| guess != species) {
                model[species][nth] += rate * x;
                model[guess][nth] -= rate * x;
            }
            right.push(guess == species);
        }
    }
    Ok(right.iter().filter(|right| **right).count() as f32 / right.len() as f32)
}

/// The species whose weights fit best.
fn likeliest(model: &[Vec<f32>], features: &[f32]) -> usize {
    let score = |nth: &usize| model[*nth].iter().zip(features).map(|(weight, x)| weight * x).sum::<f32>();
    (0..SPECIES.len()).max_by(|one, other| score(one).total_cmp(&score(other))).unwrap_or(0)
}

/// Answers so many requests, each a JSON object, with the bytes for a model that training saw.
fn serve(server: &Server, folder: &Path, requests: usize) -> Done<()> {
    let prepared = Prepared::load(folder.join("prepared.json"))?;
    let model: Vec<Vec<f32>> = serde_json::from_slice(&std::fs::read(folder.join("model.json"))?)?;
    let mut row = prepared.row();
    for mut request in server.incoming_requests().take(requests) {
        let applied = prepared.apply_reader(request.as_reader(), &mut row);
        request.respond(match applied.and_then(|()| row.f32("features")) {
            Ok(features) => Response::from_string(SPECIES[likeliest(&model, features)]),
            Err(error) => Response::from_string(error.to_string()).with_status_code(400),
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};

    use super::*;

    fn ask(server: SocketAddr, record: &str) -> String {
        let mut stream = TcpStream::connect(server).expect("the server listens");
        let head =
            format!("POST / HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", record.len());
        stream.write_all((head + record).as_bytes()).expect("the server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the server answers");
        answer
    }

    #[test]
    fn sixty_lines_train_save_and_serve() {
        let (program, _) = include_str!("penguins.rs").split_once("\n#[cfg(test)]").expect("tests come last");
        let lines = program.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
        assert!(lines.count() <= 60);
    }

    #[test]
    fn a_penguin_is_known_by_its_record() -> Done<()> {
        // As if it were run in the folder of the whole.
        std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))?;
        let folder = tempfile::tempdir()?;
        let right = train(folder.path())?;
        assert!(right > 0.95, "{right}");
        let server = Server::http("127.0.0.1:0")?;
        let address = server.server_addr().to_ip().expect("an address");
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| serve(&server, folder.path(), 3));
            let gentoo = r#"{"island": "Biscoe", "bill_length_mm": 47, "bill_depth_mm": 14, "flipper_length_mm": 216}"#;
            assert!(ask(address, gentoo).ends_with("\r\n\r\nGentoo"), "{}", ask(address, gentoo));
            let adelie = r#"{"island": "an unknown one", "bill_length_mm": 37, "bill_depth_mm": 19, "sex": "female"}"#;
            assert!(ask(address, adelie).ends_with("Adelie"));
            let wrong = ask(address, r#"{"sex": "femail"}"#);
            assert!(wrong.starts_with("HTTP/1.1 400") && wrong.contains("did you mean \"female\"?"), "{wrong}");
            serving.join().expect("the server ends")
        })
    }
}
