//! Options of earlier versions that are fields now.

use crate::read::csv;
#[cfg(feature = "formats")]
use crate::read::{audio, fixed, images, tar, tokens};
use crate::tree::{Fault, Node};

/// The advice for options in which something is wrong, if they are those of an earlier version.
///
/// # Errors
///
/// The original error.
pub(super) fn advice(format: &str, options: &Node) -> Result<Option<Fault>, Fault> {
    let advice = match format {
        "csv" => csv::old::advice(options),
        #[cfg(feature = "formats")]
        _ => of_formats(format, options),
        #[cfg(not(feature = "formats"))]
        _ => Ok(None),
    };
    advice.map(|advice| advice.map(Fault::replaced))
}

#[cfg(feature = "formats")]
fn of_formats(format: &str, options: &Node) -> Result<Option<String>, Fault> {
    match format {
        "csv_sequences" => match options {
            Node::Table(entries) => match entries.iter().find(|(key, _)| key == "csv") {
                Some((_, options)) => csv::old::advice(options),
                None => Ok(None),
            },
            _ => Ok(None),
        },
        "audio" => audio::old::advice(options),
        "idx" | "npy" | "raw" => fixed::old::advice(options),
        "images" => images::old::advice(options),
        "tar" => tar::old::advice(options),
        "text_tokens" | "tokens" => tokens::old::advice(options),
        _ => Ok(None),
    }
}
