//! A table with gaps and names, from training to a server that answers for one record:
//! `cargo run --example penguins train`, then `cargo run --example penguins serve`, and
//! `curl -d '{"island": "Dream", "bill_length_mm": 46.5, "bill_depth_mm": null}' localhost:8080`.

use std::io::Read;
use std::path::Path;

use ringfeed::field::Class;
use ringfeed::prepare::{Median, MostFrequent, Prepared, Recipe, category, number};
use ringfeed::{Loader, Split};
use tiny_http::{Response, Server};

type Done<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const SPECIES: [&str; 3] = ["Adelie", "Chinstrap", "Gentoo"];

/// A row of weights for each species.
type Model = [Vec<f32>; 3];

fn main() -> Done<()> {
    match std::env::args().nth(1).as_deref() {
        Some("train") => println!("{:.1} % of the test part are right", 100.0 * train(Path::new("."))?),
        Some("serve") => serve(&Server::http("127.0.0.1:8080")?, Path::new("."), usize::MAX)?,
        _ => return Err("say train or serve".into()),
    }
    Ok(())
}

fn train(folder: &Path) -> Done<f32> {
    let measure = || number().impute(Median).mask().standardise();
    let recipe = Recipe::new()
        .column("bill_length_mm", measure())
        .column("bill_depth_mm", measure())
        .column("flipper_length_mm", measure())
        .column("island", category().one_hot().unknown())
        .column("sex", category().one_hot().impute(MostFrequent));
    let table = Loader::open("fixtures/penguins.csv")?;
    let (rows, rest) = (table.clone().split(Split::train(0.8)), table.split(Split::train(0.8).rest()));
    let prepared = recipe.fit(&rows)?; // one pass, over the training part alone
    prepared.save(folder.join("prepared.json"))?;

    let mut model: Model = std::array::from_fn(|_| vec![0.0; prepared.feature_names().len()]);
    let batches = |rows: Loader| rows.prepare(&prepared).field("species", Class::of(SPECIES)).batch_size(16);
    for epoch in batches(rows).shuffle(42).build()?.epochs(20) {
        for batch in epoch? {
            let batch = batch?;
            let features = batch.tensor("features")?.as_slice::<f32>()?.chunks(model[0].len());
            for (features, species) in features.zip(batch.labels()?.as_slice::<i64>()?) {
                let shares = shares(&model, features);
                for (nth, (weights, share)) in model.iter_mut().zip(shares).enumerate() {
                    let error = share - f32::from(u8::from(nth as i64 == *species));
                    weights.iter_mut().zip(features).for_each(|(weight, x)| *weight -= 0.05 * error * x);
                }
            }
        }
    }
    std::fs::write(folder.join("model.json"), serde_json::to_vec(&model)?)?;

    let (mut right, mut seen) = (0.0, 0.0);
    for batch in batches(rest).build()? {
        let batch = batch?;
        let features = batch.tensor("features")?.as_slice::<f32>()?.chunks(model[0].len());
        for (features, species) in features.zip(batch.labels()?.as_slice::<i64>()?) {
            right += f32::from(u8::from(likeliest(&shares(&model, features)) as i64 == *species));
            seen += 1.0;
        }
    }
    Ok(right / seen)
}

/// Answers so many requests, each a JSON object, with the bytes for a model that training saw.
fn serve(server: &Server, folder: &Path, requests: usize) -> Done<()> {
    let prepared = Prepared::load(folder.join("prepared.json"))?;
    let model: Model = serde_json::from_slice(&std::fs::read(folder.join("model.json"))?)?;
    let (mut row, mut text) = (prepared.row(), String::new());
    for mut request in server.incoming_requests().take(requests) {
        text.clear();
        let read = request.as_reader().take(1 << 16).read_to_string(&mut text).map_err(ringfeed::Error::from);
        match read.and_then(|_| prepared.apply_json(&text, &mut row)).and_then(|()| row.f32("features")) {
            Ok(features) => request.respond(Response::from_string(SPECIES[likeliest(&shares(&model, features))]))?,
            Err(error) => request.respond(Response::from_string(error.to_string()).with_status_code(400))?,
        }
    }
    Ok(())
}

fn shares(model: &Model, features: &[f32]) -> [f32; 3] {
    let powers = model.each_ref().map(|weights| weights.iter().zip(features).map(|(w, x)| w * x).sum::<f32>().exp());
    powers.map(|power| power / powers.iter().sum::<f32>())
}

fn likeliest(shares: &[f32; 3]) -> usize {
    (0..3).max_by(|one, other| shares[*one].total_cmp(&shares[*other])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
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
    fn a_penguin_is_known_by_its_record() -> Done<()> {
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
