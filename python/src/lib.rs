//! Ringfeed for Python: the compiled part of the package `ringfeed`. It has no logic of its own; the library does all
//! the work.

mod batch;
mod calling;
mod device;
mod dlpack;
mod ending;
mod engine;
mod epoch;
mod errors;
mod finish;
mod fork;
mod hold;
mod inspect;
mod json;
mod prepare;
mod reader;
mod report;
mod running;
mod samples;
mod serve;
mod settings;
mod shared;
mod stats;
mod table;
mod tensor;
mod transform;
mod turn;
mod verify;
mod view;
mod wait;

use std::ffi::OsString;

use pyo3::prelude::*;
use ringfeed::order::Shard;

/// This process's shard, according to its launcher: index and count.
#[pyfunction]
fn shard_from_env(py: Python<'_>) -> PyResult<(u32, u32)> {
    let (shard, _) = Shard::from_env().map_err(|error| errors::exception(py, &error))?;
    Ok((shard.index, shard.count))
}

/// The `ringfeed` command with its arguments. Returns the exit status.
#[pyfunction]
fn command(py: Python<'_>, typed: Vec<OsString>) -> u8 {
    py.detach(|| ringfeed_cli::run(std::iter::once("ringfeed".into()).chain(typed)))
}

#[pymodule(gil_used = false)]
fn _ringfeed(module: &Bound<'_, PyModule>) -> PyResult<()> {
    fork::watch(module.py());
    ending::watch();
    calling::watch(module.py());
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<engine::Engine>()?;
    module.add_class::<epoch::Epoch>()?;
    module.add_class::<prepare::Counted>()?;
    module.add_class::<prepare::Fitted>()?;
    module.add_class::<prepare::FittedWindow>()?;
    module.add_class::<report::RunReport>()?;
    module.add_class::<serve::Served>()?;
    module.add_class::<serve::Window>()?;
    module.add_class::<stats::Snapshot>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<tensor::Tensor>()?;
    module.add_function(wrap_pyfunction!(settings::load_settings, module)?)?;
    module.add_function(wrap_pyfunction!(settings::detect, module)?)?;
    module.add_function(wrap_pyfunction!(settings::setting_names, module)?)?;
    module.add_function(wrap_pyfunction!(shard_from_env, module)?)?;
    module.add_function(wrap_pyfunction!(command, module)?)?;
    module.add_function(wrap_pyfunction!(epoch::check_yields, module)?)?;
    module.add_function(wrap_pyfunction!(inspect::inspect, module)?)?;
    module.add_function(wrap_pyfunction!(prepare::recipe_faults, module)?)?;
    module.add_function(wrap_pyfunction!(serve::serve, module)?)?;
    module.add_function(wrap_pyfunction!(verify::verify, module)?)?;
    module.add_function(wrap_pyfunction!(finish::finish, module)?)?;
    Ok(())
}
