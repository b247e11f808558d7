//! The commands that work on the data folder itself; the others are in `terse-cli`.

pub(crate) mod archive;
pub(crate) mod backup;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod health;
pub(crate) mod import_clicks;
pub(crate) mod man_pages;
pub(crate) mod migrate;
pub(crate) mod ship;
