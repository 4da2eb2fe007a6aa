//! Pictures: decoding, augmentation, maps, targets and views.

#[path = "../common/mod.rs"]
mod common;

mod augment;
mod files;
mod jpeg;
mod maps;
mod targets;
mod tiff_bmp;
mod views;
