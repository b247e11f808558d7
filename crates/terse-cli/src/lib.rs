//! The command line: commands, the API client, import and export, and the load generator.
//!
//! Most commands work through the API. The binary passes in how to reach the API of the local data
//! folder ([`CommandContext::local`]), and what `backup`, `restore` and `doctor` need of the
//! stores' files ([`DataFiles`]), so that this crate knows neither the stores nor the server.

pub mod bench;
mod client;
mod commands;
mod data_files;
mod problem;
pub mod terminal;
mod transfer;
mod unix_agent;

pub use client::{ApiClient, ApiResponse, InProcessApi, RemoteServer};
pub use commands::backup::{BackupArgs, BackupContext, LAST_BACKUP, RestoreArgs};
pub use commands::doctor::{
    DoctorArgs, DoctorChecks, DoctorContext, LocalServer, without_settings,
};
pub use commands::health::HealthArgs;
pub use commands::restore_drill::{DrillCounts, FilesIn, LAST_DRILL, ScheduledDrills};
pub use commands::self_test::SelfTestArgs;
pub use commands::stored_backups::{BackupCounts, ScheduledBackups, StoredBackupCommand};
pub use commands::{Command, CommandContext};
pub use data_files::{CheckFile, CopyFile, DataFile, DataFiles};
pub use problem::{UsageError, describe};
