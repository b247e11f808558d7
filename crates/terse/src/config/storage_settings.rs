//! Settings of objects outside of this machine.

use std::path::PathBuf;

use super::node::settings;
use super::values::{HumanDuration, ObjectUrl, Secret};

settings! {
    /// `[s3]`: how to reach S3, or a server that speaks its protocol.
    pub struct S3Config {
        /// The URL of the server, such as `https://minio.example:9000`. Without it, Amazon's.
        pub endpoint: Option<String> = None,
        /// The region. Without it, that of the environment (`AWS_REGION`), else `us-east-1`.
        pub region: Option<String> = None,
        /// The id of the access key. Without it, terse takes the key from where AWS programs take
        /// it: the variables `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, the role of the
        /// container, the role of the machine.
        pub access_key_id: Option<String> = None,
        /// The secret of the access key.
        pub secret_access_key: Option<Secret> = None,
        /// Whether the bucket is a part of the host's name instead of the path.
        pub virtual_hosts: bool = false,
        /// Whether the server refuses writes whose condition does not hold (`If-None-Match`,
        /// `If-Match`), as Amazon's and MinIO do.
        pub conditional_writes: bool = true,
        /// A file with certificates in PEM to trust instead of the public ones.
        pub ca_certificates: Option<PathBuf> = None,
    }
}

settings! {
    /// `[backup]`: backups on a schedule, of a store in files.
    pub struct BackupConfig {
        /// Where terse sends backups: `s3://bucket/prefix` (see `s3.*`) or `file:///folder`.
        pub url: Option<ObjectUrl> = None,
        /// How old the newest backup may be before terse sends another, at least `1h`.
        pub every: HumanDuration = HumanDuration::days(1),
        /// How long terse keeps backups there, compared with the newest one. The three newest stay
        /// in any case.
        pub keep: HumanDuration = HumanDuration::days(14),
        /// How often terse restores the newest backup into a temporary folder and reads all of
        /// it, at least `1h`; `0s` for never.
        pub drill_every: HumanDuration = HumanDuration::days(7),
    }
}
