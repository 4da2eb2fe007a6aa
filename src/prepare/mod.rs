//! Preprocessing of tables that is fitted once, and is then the same in training and in production.
//!
//! A [`Recipe`] says how each column is prepared: numbers are imputed, masked, clipped and scaled, names become codes
//! or one-hot features, many names are hashed, dates are split into parts. [`Recipe::fit`] reads the training data once
//! and gives a [`Prepared`], which is one JSON file. A loader makes tensors with it
//! ([`Loader::prepare`](crate::Loader::prepare)). A server prepares single records with it, from many threads, with the
//! same bytes as in training.
//!
//! Reading order: `words`, `columns`, `join`, `derive` and `recipe` (before fitting), `given`, `exact_number`, `date_text` and `date`
//! (the meaning of a value), `inputs` (from the fields of a record to the inputs of columns), `exact`, `counts` and
//! `stats` (the counts of numbers), `column_fit` and `fit`, `fitted` (the result for a value), `prepared`, `saved`,
//! `given_record`, `serve` and `window` (records in memory, alone or in windows), `fields`.

mod by_name;
mod column_fit;
mod columns;
mod config;
mod counts;
mod date;
mod date_text;
mod derive;
mod exact;
mod exact_number;
mod fields;
mod fit;
mod fitted;
mod given;
mod given_record;
mod inputs;
mod join;
mod prepared;
mod recipe;
mod saved;
mod serve;
mod stats;
mod target;
mod window;
mod words;

pub use crate::read::DateUnit;
pub use columns::{Category, Date, Hash, Number, category, date, hash, number};
pub use config::PreparedConfig;
pub use date::DatePart;
pub use derive::{
    Derive, Operand, days, difference, equal, largest, less, less_or_equal, log_ratio, pair, product, ratio, same,
    smallest, sum,
};
pub(crate) use fields::{Counting, Tally};
pub use fit::RecipeFit;
pub use join::{Join, join};
pub use prepared::Prepared;
pub use recipe::{Column, Recipe};
pub use serve::PreparedRow;
pub use window::PreparedWindow;
pub use words::Impute::{self, Mean, Median, MostFrequent};
pub use words::Scale;
