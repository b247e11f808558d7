//! Health and metrics of a process: `/livez`, `/readyz` and `/metrics`.
//!
//! Every component writes its own metrics ([`terse_core::metrics`]); the binary lists the
//! components. This crate measures the calls of the store and renders everything in the formats of
//! Prometheus.

mod change_delays;
mod exposition;
mod folder;
mod format;
mod health;
mod metrics_store;
mod process;

pub use change_delays::ChangeDelays;
pub use exposition::Exposition;
pub use folder::{write_drill_metrics, write_folder_metrics};
pub use health::{HealthEndpoints, LinkProbe};
pub use metrics_store::MetricsStore;
