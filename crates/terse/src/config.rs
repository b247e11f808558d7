//! The settings, and where they come from.
//!
//! Four layers, each overriding the one before: defaults, `terse.toml`, `TERSE_…` variables, flags.
//! They are read and checked once. Every layer refuses an unknown name, so that a typing error does
//! not go unnoticed. The doc comments of the settings are the manual (`docs/settings.md`).

mod account_settings;
mod check;
mod derived;
mod layers;
mod links_settings;
mod lists;
mod node;
mod server_settings;
mod show;
mod storage_settings;
mod traces_settings;
mod values;

use std::net::SocketAddr;
use std::path::PathBuf;

use terse_core::ListenAddress;

pub use account_settings::{
    AccountsConfig, LimitsConfig, MailConfig, MailTls, OidcConfig, SignUpMode,
};
pub(crate) use check::is_loopback;
pub use layers::{ConfigError, ConfigSources, LoadedConfig, SettingOrigin};
pub use links_settings::{
    AnonymousConfig, CacheConfig, CdnConfig, CdnProvider, ClickAddresses, ClicksConfig,
    CodeAlphabet, CodeStrategy, CodesConfig, ErrorAnswers, LinksConfig, RedirectConfig,
};
pub use lists::Lists;
use node::settings;
pub use server_settings::{
    AcmeChallenge, AcmeConfig, AdminConfig, ApiConfig, LogConfig, LogFormat, LogRequests,
    MemoryConfig, OperatorConfig, OutgoingConfig, SafetyConfig, ShutdownConfig, StorageConfig,
    TlsConfig,
};
pub use storage_settings::{BackupConfig, S3Config};
pub use traces_settings::{SampleShare, TracesConfig};
pub use values::{
    BaseUrl, BusUrl, ByteSize, CacheUrl, ClickHouseUrl, DynamoUrl, HumanDuration, ObjectUrl, Paths,
    PostgresUrl, Roles, Secret, StoreUrl,
};

settings! {
    /// Everything that can be set.
    pub struct Config {
        /// The address and port for redirects, the API and the pages. `:8080` is port 8080 of all
        /// addresses of this machine. `unix:/run/terse/terse.sock` is a Unix socket, for a proxy on
        /// this machine: it needs `base_url`, and its connections count as those of 127.0.0.1.
        pub listen: ListenAddress = SocketAddr::from(([127, 0, 0, 1], 8080)).into(),
        /// The folder that holds all data. terse creates it at the first start, readable by its
        /// owner only.
        pub data_dir: PathBuf = "./terse-data".into(),
        /// The start of every short URL: scheme and host, no path. If not set, terse derives it
        /// from `listen`.
        pub base_url: Option<BaseUrl> = None,
        /// More short domains, as host names.
        pub domains: Vec<String> = vec![],
        /// Proxies in front of terse, as addresses or ranges such as `10.0.0.0/8`. terse takes a
        /// visitor's address from `X-Forwarded-For` only if one of them sent it.
        pub trusted_proxies: Vec<String> = vec![],
        /// Whether the proxies in `trusted_proxies` begin every connection with a header of the
        /// PROXY protocol (version 1 or 2), as TCP balancers can. terse then takes the visitor's
        /// address from this header, and closes connections from these proxies without one, except
        /// those from 127.0.0.1 and ::1.
        pub proxy_protocol: bool = false,
        /// An API key with all permissions; 16 to 256 visible characters. If not set, terse
        /// generates one at the first start.
        pub admin_key: Option<Secret> = None,
        /// The store of links. `file:` is the embedded store; its path is relative to `data_dir`
        /// unless it is absolute. `postgres://…` is a PostgreSQL database that several nodes may
        /// share, `dynamodb://TABLE?region=…` a table of DynamoDB; see [DynamoDB](dynamodb.md).
        pub store: StoreUrl = StoreUrl::File("terse.db".into()),
        /// The registry of accounts, API keys and everything else that is not a link or a click, in
        /// the form of `store`. Without it, it is in the database of `store` if that is PostgreSQL,
        /// else in `file:registry.db`. With links on DynamoDB it must be `postgres://…`.
        pub registry: Option<StoreUrl> = None,
        /// The PostgreSQL database of `store` or `registry` without a pooler in between, for
        /// changes of its tables. If it is set, terse sends no cancel requests.
        pub store_direct: Option<PostgresUrl> = None,
        /// A replica of this database, for lists, searches and statistics. While it does not
        /// answer, the database itself does.
        pub store_replica: Option<PostgresUrl> = None,
        /// Into how many partitions terse divides the table of links (by the hash of the code) when
        /// it creates the tables, also with `terse migrate`; 0 for a plain table. Later changes
        /// have no effect.
        pub store_partitions: u32 = 0,
        /// What this process does. Set fewer roles only if several processes share the work. A file
        /// store belongs to one process, which therefore needs the role `worker`.
        pub roles: Roles = Roles::ALL,
        /// Generated codes.
        pub codes: CodesConfig = CodesConfig::default(),
        /// The cache of links.
        pub cache: CacheConfig = CacheConfig::default(),
        /// Redirects.
        pub redirect: RedirectConfig = RedirectConfig::default(),
        /// Click statistics.
        pub clicks: ClicksConfig = ClicksConfig::default(),
        /// Links created without an account.
        pub anonymous: AnonymousConfig = AnonymousConfig::default(),
        /// The API.
        pub api: ApiConfig = ApiConfig::default(),
        /// Who runs this server.
        pub operator: OperatorConfig = OperatorConfig::default(),
        /// Accounts.
        pub accounts: AccountsConfig = AccountsConfig::default(),
        /// Single sign-on.
        pub oidc: OidcConfig = OidcConfig::default(),
        /// Mails with reset links and invitations.
        pub mail: MailConfig = MailConfig::default(),
        /// Rate limits.
        pub limits: LimitsConfig = LimitsConfig::default(),
        /// URL screening.
        pub safety: SafetyConfig = SafetyConfig::default(),
        /// Requests to other servers.
        pub outgoing: OutgoingConfig = OutgoingConfig::default(),
        /// A content delivery network in front of terse.
        pub cdn: CdnConfig = CdnConfig::default(),
        /// Aliases, and deleted and expired links.
        pub links: LinksConfig = LinksConfig::default(),
        /// Health and metrics.
        pub admin: AdminConfig = AdminConfig::default(),
        /// The log.
        pub log: LogConfig = LogConfig::default(),
        /// Traces.
        pub traces: TracesConfig = TracesConfig::default(),
        /// Encrypted connections.
        pub tls: TlsConfig = TlsConfig::default(),
        /// Memory.
        pub memory: MemoryConfig = MemoryConfig::default(),
        /// The disk.
        pub storage: StorageConfig = StorageConfig::default(),
        /// Object storage.
        pub s3: S3Config = S3Config::default(),
        /// Backups on a schedule.
        pub backup: BackupConfig = BackupConfig::default(),
        /// Shutdown.
        pub shutdown: ShutdownConfig = ShutdownConfig::default(),
    }
}
