//! The settings, and where they come from.
//!
//! Four layers, each overriding the one before: defaults, `terse.toml`, `TERSE_…` variables, flags.
//! They are read and checked once. Every layer refuses an unknown name, so that a typing error does
//! not go unnoticed. The doc comments of the settings are the manual (`docs/settings.md`).

mod check;
mod derived;
mod layers;
mod lists;
mod node;
mod show;
mod values;

use std::net::SocketAddr;
use std::path::PathBuf;

use terse_core::limits::Limit;
use terse_core::{Contact, OperatorName, PageUrl};

pub(crate) use check::is_loopback;
pub use layers::{ConfigError, ConfigSources, LoadedConfig, SettingOrigin};
pub use lists::Lists;
use node::{choice, settings};
pub use values::{
    BaseUrl, ByteSize, CacheUrl, HumanDuration, Paths, PostgresUrl, Roles, Secret, StoreUrl,
};

settings! {
    /// Everything that can be set.
    pub struct Config {
        /// The address and port for redirects, the API and the pages. `:8080` is port 8080 of all
        /// addresses of this machine.
        pub listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 8080)),
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
        /// The store of links and owners. `file:` is the embedded store; its path is relative to
        /// `data_dir` unless it is absolute. `postgres://…` is a PostgreSQL database that several
        /// nodes may share.
        pub store: StoreUrl = StoreUrl::File("terse.db".into()),
        /// The database of `store` without a pooler in between, for changes of its tables. If it is
        /// set, terse sends no cancel requests.
        pub store_direct: Option<PostgresUrl> = None,
        /// A replica of the database of `store`, for searches, tags and statistics. While it does not
        /// answer, the database of `store` does.
        pub store_replica: Option<PostgresUrl> = None,
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
        /// Encrypted connections.
        pub tls: TlsConfig = TlsConfig::default(),
        /// Memory.
        pub memory: MemoryConfig = MemoryConfig::default(),
        /// The disk.
        pub storage: StorageConfig = StorageConfig::default(),
        /// Shutdown.
        pub shutdown: ShutdownConfig = ShutdownConfig::default(),
    }
}

settings! {
    /// `[codes]`: generated codes.
    pub struct CodesConfig {
        /// How terse generates codes. `numbered`: unique by construction, looks random. `random`:
        /// tries until a code is free. `hash`: the same target of the same owner gets the same
        /// code. `snowflake`: time, machine and a counter; longer codes.
        pub strategy: CodeStrategy = CodeStrategy::Numbered,
        /// The length of generated codes, 4 to 10. When all codes of a length are used, terse
        /// continues with the next length.
        pub length: u8 = 7,
        /// The characters of generated codes. `base58` leaves out `0`, `O`, `I` and `l`. Fixed when
        /// the store is created.
        pub alphabet: CodeAlphabet = CodeAlphabet::Base62,
        /// How many numbers terse leases from the store at once, 1 to 100000. A crash wastes the
        /// rest of a lease.
        pub lease: u32 = 1000,
        /// The number of this machine, for `snowflake`. It must differ on every machine.
        pub machine: u8 = 0,
        /// Whether terse ignores upper and lower case in an alias if there is no exact match.
        pub loose: bool = false,
    }
}

choice! {
    /// How codes are generated.
    pub enum CodeStrategy ("`numbered`, `random`, `hash`, `snowflake`") {
        /// Leased numbers through a keyed bijection.
        Numbered = "numbered",
        /// Random, again on conflict.
        Random = "random",
        /// From target and owner, with the store's secret.
        Hash = "hash",
        /// Time, node number, sequence.
        Snowflake = "snowflake",
    }
}

choice! {
    /// The characters of generated codes.
    pub enum CodeAlphabet ("`base62`, `base58`") {
        /// Digits and both cases.
        Base62 = "base62",
        /// The same without look-alikes.
        Base58 = "base58",
    }
}

settings! {
    /// `[cache]`: links in memory.
    pub struct CacheConfig {
        /// The most memory that cached links may use; at least `1MiB`. If not set, an eighth of
        /// `memory.budget`.
        pub size: Option<ByteSize> = None,
        /// How long a cached link is used before terse reads it from the store again; `1s` to `1d`.
        pub ttl: HumanDuration = HumanDuration::secs(300),
        /// How long terse remembers that a code does not exist; at most `60s`.
        pub negative_ttl: HumanDuration = HumanDuration::secs(30),
        /// How many codes that do not exist terse remembers.
        pub negative_entries: u32 = 65_536,
        /// A Redis server that all nodes share. It keeps copies of links, announces changes and
        /// counts rate limits. `redis://host`, `rediss://user:password@host:6379/0`,
        /// `redis+cluster://a,b,c` or `redis+sentinel://a,b,c/master`. Only with a store that
        /// several nodes share.
        pub url: Option<CacheUrl> = None,
        /// Whether a new link is written to `cache.url` when it is created.
        pub write_through: bool = false,
    }
}

settings! {
    /// `[redirect]`: redirects.
    pub struct RedirectConfig {
        /// The number of threads that serve redirects; 0 is one per core.
        pub threads: u16 = 0,
        /// How terse answers a visit that fails. `status`: with its status and a page. `page`: with
        /// a redirect to `/r/{code}?error=…`.
        pub errors: ErrorAnswers = ErrorAnswers::Status,
        /// How long browsers may cache a 301 or 308, `0s` to `365d`. A cached redirect cannot be
        /// revoked.
        pub permanent_max_age: HumanDuration = HumanDuration::days(1),
        /// After how long without a change terse answers a link with 301 instead of 302; `0s`
        /// never. Links with an expiry, a click limit, rules, a password, a forwarded query or a
        /// flag keep
        /// 302. Browsers cache a 301, so terse counts fewer clicks.
        pub permanent_after: HumanDuration = HumanDuration::secs(0),
        /// The longest time a visitor waits for the store; `1ms` to `60s`.
        pub store_timeout: HumanDuration = HumanDuration::ms(500),
        /// How long terse serves links from memory past `cache.ttl` while the store is away; `0s` to
        /// `7d`. Then they answer 503: they may have been changed or blocked.
        pub max_stale: HumanDuration = HumanDuration::secs(3600),
        /// The most concurrent lookups in the store.
        pub store_concurrency: u32 = 256,
        /// The longest time a client may take to send the head of a request; `1s` to `5m`.
        pub header_timeout: HumanDuration = HumanDuration::secs(10),
        /// The longest time a connection may be idle between requests; `1s` to `1h`.
        pub idle_timeout: HumanDuration = HumanDuration::secs(75),
        /// The most open connections. The limit of open files must allow as many. When they are
        /// all in use, terse closes the connections that have been idle longest.
        pub max_connections: u32 = 20_000,
        /// The most open connections from one address of IPv4 or /64 of IPv6; `0` is an eighth of
        /// `max_connections`. Trusted proxies may have more.
        pub max_connections_per_ip: u32 = 0,
    }
}

choice! {
    /// How a failed visit is answered.
    pub enum ErrorAnswers ("`status`, `page`") {
        /// With its status.
        Status = "status",
        /// With a redirect to a page.
        Page = "page",
    }
}

settings! {
    /// `[clicks]`: click statistics.
    pub struct ClicksConfig {
        /// Whether terse counts clicks. Existing statistics stay.
        pub enabled: bool = true,
        /// The store of clicks, in the form of `store`. Without it, clicks are in the database of
        /// `store` if that is one, else in `file:clicks.db`. With a file beside a database, every
        /// node has statistics of its own visits only.
        pub store: Option<StoreUrl> = None,
        /// The most disk space for clicks that are not counted yet, at least `16MiB`, beside what
        /// is being written. If it is full while `clicks.store` accepts nothing, terse drops the
        /// oldest clicks. While the store is only slow, four times as much may wait.
        pub journal_size: ByteSize = ByteSize::mib(1024),
        /// How long clicks may be in memory before terse stores them together, at most `1m`.
        /// Statistics include them, unless nodes share the store of clicks. A crash loses none: the
        /// journal keeps them until then.
        pub flush: HumanDuration = HumanDuration::secs(5),
        /// How long terse keeps single clicks; `0s` keeps sums only.
        pub keep_raw: HumanDuration = HumanDuration::days(90),
        /// The most disk space for single clicks. Past it terse deletes the oldest, some ten
        /// thousand at a time; their sums stay. Without it, only `clicks.keep_raw` counts.
        pub max_raw: Option<ByteSize> = None,
        /// How long terse keeps sums per hour, at least `2d`; older sums are per day.
        pub keep_hours: HumanDuration = HumanDuration::days(30),
        /// How much of a visitor's IP address terse stores: `cut` the first 24 bits of IPv4 and 48
        /// of IPv6, `none` only its country, `full` the whole address.
        pub address: ClickAddresses = ClickAddresses::Cut,
        /// Whether terse stores nothing but the count for visitors who ask not to be tracked
        /// (`DNT`, `Sec-GPC`).
        pub honour_dnt: bool = true,
        /// A geo database in MaxMind's format, instead of the built-in countries. terse reads it
        /// again when it changes.
        pub geo_database: Option<PathBuf> = None,
    }
}

choice! {
    /// How much of a visitor's address is stored.
    pub enum ClickAddresses ("`cut`, `none`, `full`") {
        /// Its beginning.
        Cut = "cut",
        /// Nothing.
        Nothing = "none",
        /// All of it.
        Full = "full",
    }
}

settings! {
    /// `[anonymous]`: links created without an account.
    pub struct AnonymousConfig {
        /// Whether links can be created without an API key.
        pub create: bool = true,
        /// How long after its creation a link without an owner expires; at least `1s`.
        pub ttl: HumanDuration = HumanDuration::secs(8 * 3600),
    }
}

settings! {
    /// `[operator]`: who runs this server, shown on public pages.
    pub struct OperatorConfig {
        /// The person or organisation that runs this server, 1 to 64 characters. Pages show it in
        /// their header and footer.
        pub name: Option<OperatorName> = None,
        /// A picture that pages show in their header instead of the name: the path of an SVG, PNG,
        /// JPEG or WebP file of at most 256 KiB. terse reads it at the start.
        pub logo: Option<PathBuf> = None,
        /// The URL of the legal notice, linked at the foot of every page.
        pub imprint: Option<PageUrl> = None,
        /// Where to report abusive links: an email address or a URL. It is at the foot of every
        /// page, and on the pages of expired and blocked links.
        pub abuse_contact: Option<Contact> = None,
        /// Where to report security problems of this server: an email address or a URL. It is at
        /// the foot of every page and in `/.well-known/security.txt`.
        pub security_contact: Option<Contact> = None,
    }
}

settings! {
    /// `[accounts]`: accounts.
    pub struct AccountsConfig {
        /// Who may create an account. `closed`: admins, and holders of an invitation. `open`:
        /// everyone, at `/signup`.
        pub sign_up: SignUpMode = SignUpMode::Closed,
        /// How long a browser stays signed in; `1m` to `365d`.
        pub session_ttl: HumanDuration = HumanDuration::days(30),
    }
}

choice! {
    /// Who may create an account.
    pub enum SignUpMode ("`closed`, `open`") {
        /// Admins, and holders of an invitation.
        Closed = "closed",
        /// Everyone.
        Open = "open",
    }
}

settings! {
    /// `[oidc]`: single sign-on with OpenID Connect.
    pub struct OidcConfig {
        /// The provider, such as `https://id.example.com`; https, unless it is on this machine.
        /// terse reads the rest from its discovery document. The redirect URI is
        /// `/auth/oidc/callback`.
        pub issuer: Option<String> = None,
        /// The client id that the provider issued for terse.
        pub client_id: Option<String> = None,
        /// The client secret that the provider issued for terse. Without it, only PKCE protects the
        /// exchange.
        pub client_secret: Option<Secret> = None,
        /// The name of the provider on the sign-in page. If not set, its host name.
        pub name: Option<String> = None,
        /// Whether terse creates an account at the first sign-in. Otherwise a first
        /// sign-in needs an invitation, or an account that its owner has connected.
        pub sign_up: bool = false,
    }
}

choice! {
    /// How the connection to the mail server is protected.
    pub enum MailTls ("`starttls`, `tls`, `none`") {
        /// Changes to TLS before anything is sent.
        StartTls = "starttls",
        /// TLS from the first byte.
        Tls = "tls",
        /// No TLS.
        None = "none",
    }
}

settings! {
    /// `[mail]`: mails with reset links and invitations.
    pub struct MailConfig {
        /// The mail server that takes terse's mails (SMTP), as host and port, such as
        /// `smtp.example.com:587`. If not set, terse sends no mails.
        pub server: Option<String> = None,
        /// How the connection is protected: `starttls` (usual with port 587), `tls` (usual with port
        /// 465) or `none`, for a mail server on this machine.
        pub tls: MailTls = MailTls::StartTls,
        /// The name to sign in with at the mail server.
        pub username: Option<String> = None,
        /// The password to sign in with. terse sends it only over TLS, or to this machine.
        pub password: Option<Secret> = None,
        /// The sender's address of all mails.
        pub from: Option<String> = None,
        /// A file with root certificates (PEM) to trust for the mail server instead of the usual
        /// ones.
        pub ca: Option<PathBuf> = None,
    }
}

settings! {
    /// `[limits]`: rate limits.
    pub struct LimitsConfig {
        /// How many links one address may create without an API key, as in `30/h`, `5/m`, `1/s` or
        /// `100/d`; `0` is no limit. An address is one of IPv4 or a /64 of IPv6; a /48 of IPv6 may
        /// create eight times as many.
        pub create_per_ip: Limit = Limit::per_hour(30),
        /// How many links one API key may create. Admins' keys are not limited.
        pub create_per_key: Limit = Limit::per_hour(100),
        /// How many links one account may create with all its keys and browsers. Admins can set
        /// another limit for an account. A key with a higher limit does not raise it.
        pub create_per_account: Limit = Limit::per_hour(500),
        /// How many links one address may create with API keys and in browsers that are signed in,
        /// whichever accounts they belong to.
        pub create_per_ip_with_key: Limit = Limit::per_hour(2000),
        /// How many links one address may follow.
        pub redirect_per_ip: Limit = Limit::OFF,
        /// How often one link may be followed.
        pub redirect_per_code: Limit = Limit::OFF,
        /// How many codes that do not exist one address may request. Beyond it, such requests get
        /// 429; existing links keep working.
        pub guesses_per_ip: Limit = Limit::per_minute(60),
        /// How many wrong passwords of links one address may send; beyond it, 429. All addresses
        /// together may send twenty times as many for one link.
        pub password_attempts_per_ip: Limit = Limit::per_hour(10),
        /// How many failed sign-ins one address may make, and as many for one account from all
        /// addresses. Successful sign-ins do not count.
        pub sign_in_per_ip: Limit = Limit::per_minute(10),
        /// How many reports one address may send.
        pub report_per_ip: Limit = Limit::per_hour(10),
    }
}

settings! {
    /// `[safety]`: URL screening.
    pub struct SafetyConfig {
        /// Blocklists: files and https URLs, each also as `name=…`. Supported are hosts files,
        /// lists of domains or URLs, and the CSV of PhishTank and URLhaus. terse refuses new links
        /// to an entry and blocks existing ones.
        pub lists: Lists = Lists::default(),
        /// Lists of targets to warn of, in the same formats, such as newly registered domains.
        /// terse accepts links to an entry and puts a warning page before them.
        pub warn_lists: Lists = Lists::default(),
        /// How often terse fetches lists from URLs, `1m` to `7d`. It reads files again when they
        /// change.
        pub lists_every: HumanDuration = HumanDuration::secs(3600),
        /// The flags that put a warning page before a link. Leave out flags that your links often
        /// get; an empty list turns warnings off.
        pub warn_on: Vec<String> = terse_safety::FlagSet::default_warnings()
            .iter()
            .map(|flag| flag.as_str().to_owned())
            .collect(),
        /// A key for Google Safe Browsing. With it, terse keeps local copies of its lists, and asks
        /// it about targets that may be on them. The request holds a part of a hash and does not
        /// reveal the target.
        pub safe_browsing_key: Option<Secret> = None,
        /// The URL of a proxy for Safe Browsing, instead of Google's. https, unless it is on this
        /// machine.
        pub safe_browsing_url: Option<BaseUrl> = None,
        /// How often terse scans all links again even if no list has changed; `1m` to `365d`.
        pub rescan_every: HumanDuration = HumanDuration::days(1),
        /// Hosts that links must not lead to, each with all its subdomains.
        pub blocked_hosts: Vec<String> = vec![],
        /// Whether links may lead to private and loopback addresses.
        pub allow_private_targets: bool = false,
    }
}

settings! {
    /// `[outgoing]`: requests to other servers. All are off by default.
    pub struct OutgoingConfig {
        /// Whether owners may have webhooks, which receive an event when a link of theirs changes;
        /// see webhooks.md.
        pub webhooks: bool = false,
        /// Whether terse reads the title of the target for a link that is created without a title.
        pub titles: bool = false,
        /// Whether terse checks that targets still answer. A link whose target did not answer on
        /// three days, or twice soon after its creation, gets the flag `unreachable`.
        pub check_targets: bool = false,
        /// Whether requests for webhooks, titles and target checks may go to private networks, and
        /// webhooks may use http. Only for an intranet: every owner can then make terse send
        /// requests inside it.
        pub allow_private: bool = false,
    }
}

settings! {
    /// `[cdn]`: a content delivery network in front of terse; see cdn.md.
    pub struct CdnConfig {
        /// Whether edges of a CDN may keep redirects. Visits that an edge answers reach terse only
        /// through the CDN's log (`terse import-clicks`).
        pub enabled: bool = false,
        /// How long edges keep a redirect; `1s` to `1d`. After a change of a link, terse purges it.
        pub ttl: HumanDuration = HumanDuration::secs(300),
        /// Which CDN is purged. Needed with `cdn.enabled`.
        pub purge: CdnProvider = CdnProvider::Nothing,
        /// For `varnish`: the URLs of all Varnish servers, such as `http://10.0.0.7:6081`. For the
        /// others: one URL instead of the API's own, for a proxy.
        pub url: Vec<String> = vec![],
        /// The id of Fastly's service, Cloudflare's zone or CloudFront's distribution.
        pub service: Option<String> = None,
        /// For `cloudfront`: the id of the access key.
        pub key_id: Option<String> = None,
        /// The API token of Fastly or Cloudflare, the secret access key of AWS, or what the VCL of
        /// Varnish expects as `Terse-Purge-Token`.
        pub token: Option<Secret> = None,
    }
}

choice! {
    /// The content delivery networks that terse can purge.
    pub enum CdnProvider ("`none`, `varnish`, `fastly`, `cloudflare`, `cloudfront`") {
        /// None.
        Nothing = "none",
        /// Varnish with the module xkey.
        Varnish = "varnish",
        /// Fastly.
        Fastly = "fastly",
        /// Cloudflare.
        Cloudflare = "cloudflare",
        /// Amazon CloudFront.
        CloudFront = "cloudfront",
    }
}

settings! {
    /// `[links]`: aliases, and deleted and expired links.
    pub struct LinksConfig {
        /// How long terse keeps a deleted link, which can be restored until then, and an expired
        /// link without an owner.
        pub grace: HumanDuration = HumanDuration::days(7),
        /// How long terse keeps an expired link of an owner, with its statistics; at least `grace`.
        pub keep_expired: HumanDuration = HumanDuration::days(365),
        /// How long an alias stays reserved for its former owner after its link was removed for
        /// good. `0s` turns this off. The codes of blocked links stay reserved for ever.
        pub quarantine: HumanDuration = HumanDuration::days(365),
        /// A file of aliases that terse refuses to every account: one per line, in upper or lower
        /// case, with comments after `#`; at most 1 MiB. terse reads it at the start. Existing
        /// links stay.
        pub unwanted_aliases: Option<PathBuf> = None,
        /// How often terse marks expired links and deletes old ones; `1s` to `1d`.
        pub reap_every: HumanDuration = HumanDuration::secs(15 * 60),
        /// How many links terse deletes in one write, 1 to 100000.
        pub reap_batch: u32 = 1000,
        /// The largest share of all links that terse deletes for good at once, in percent. Beyond
        /// it terse deletes nothing and waits for `terse doctor --confirm`. Up to 100 links are
        /// never too many. `100` turns this off.
        pub max_purge_percent: u8 = 25,
    }
}

settings! {
    /// `[admin]`: health and metrics.
    pub struct AdminConfig {
        /// If set, terse serves health and metrics at this address, and not at `listen`.
        pub listen: Option<SocketAddr> = None,
    }
}

settings! {
    /// `[api]`: the API.
    pub struct ApiConfig {
        /// A separate host for API, sign-in and dashboard, such as `app.example`, with the scheme
        /// and port of `base_url`. Short domains then serve links and their pages only. Commands on
        /// this machine still reach the API by its local address.
        pub host: Option<String> = None,
        /// The origins whose web pages may call the API from a browser, such as
        /// `https://app.example`, or `*` for all. Cookies are never sent with `*`.
        pub cors_origins: Vec<String> = vec![],
    }
}

settings! {
    /// `[log]`: the log on standard error.
    pub struct LogConfig {
        /// The format of log lines: `text` for humans, `json` for programs.
        pub format: LogFormat = LogFormat::Text,
        /// How much terse logs: `error`, `warn`, `info`, `debug` or `trace`, also by module, as in
        /// `info,terse_server=debug`.
        pub level: String = "info".into(),
        /// Which requests to the API and the pages terse logs, with their route, status and id:
        /// none, those that can change something, or all. Redirects are never logged.
        pub requests: LogRequests = LogRequests::Off,
    }
}

choice! {
    /// Which requests are logged.
    pub enum LogRequests ("`off`, `writes`, `all`") {
        /// None.
        Off = "off",
        /// Those that can change something.
        Writes = "writes",
        /// All.
        All = "all",
    }
}

choice! {
    /// The format of log lines.
    pub enum LogFormat ("`text`, `json`") {
        /// Readable text.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

settings! {
    /// `[tls]`: encrypted connections.
    pub struct TlsConfig {
        /// The address and port for https, such as `:443`; see tls.md. If not set, a proxy in front
        /// of terse has the certificates.
        pub listen: Option<SocketAddr> = None,
        /// The certificates, as files in PEM format, each with the rest of its chain. Of several, a
        /// client gets the one for the host that it asks for, else the first. terse reads files
        /// again when they change.
        pub certificate: Paths = Paths::default(),
        /// The private keys of the certificates, in the same order, as files in PEM format without
        /// a password. Only the user that runs terse should be able to read them.
        pub key: Paths = Paths::default(),
        /// Whether terse answers http requests at `listen` with a redirect to https. Health checks
        /// and commands on this machine are served without https.
        pub redirect: bool = true,
        /// The longest time for a TLS handshake; `1s` to `1m`.
        pub handshake_timeout: HumanDuration = HumanDuration::secs(10),
        /// The most TLS handshakes at the same time. terse closes further connections.
        pub max_handshakes: u32 = 1024,
        /// How long browsers use nothing but https for a short domain after a visit, at most
        /// `3650d`. terse sends it as `Strict-Transport-Security` in answers at `tls.listen`;
        /// without `tls.listen`, if `base_url` is https and no trusted proxy sends
        /// `X-Forwarded-Proto: http`. `0s` sends no such field.
        pub hsts: HumanDuration = HumanDuration::secs(0),
        /// Certificates that terse orders itself.
        pub acme: AcmeConfig = AcmeConfig::default(),
    }
}

settings! {
    /// `[tls.acme]`: certificates that terse orders itself.
    pub struct AcmeConfig {
        /// Whether terse orders certificates for all short domains from a certificate authority
        /// (ACME), and renews them; see tls.md. Hosts with a certificate in `tls.certificate` keep
        /// it.
        pub enabled: bool = false,
        /// Whether you accept the terms of the certificate authority. Needed to order.
        pub accept_terms: bool = false,
        /// Your e-mail address, which the certificate authority may use to warn you.
        pub email: Option<String> = None,
        /// The URL of the certificate authority's directory. The default is Let's Encrypt.
        pub directory: String = "https://acme-v02.api.letsencrypt.org/directory".into(),
        /// A file in PEM format with the certificate that the directory's own is signed by, for a
        /// certificate authority of your own. With it, the directory may be in a private network.
        pub directory_ca: Option<PathBuf> = None,
        /// How the authority checks that a domain is yours. `http-01`: at port 80, which must lead
        /// to `listen`. `tls-alpn-01`: at port 443, which must lead to `tls.listen`. `auto`: the
        /// second, and the other one after a failure.
        pub challenge: AcmeChallenge = AcmeChallenge::Auto,
    }
}

choice! {
    /// How a certificate authority checks that a domain is ours.
    pub enum AcmeChallenge ("`auto`, `http-01`, `tls-alpn-01`") {
        /// Both in turn.
        Auto = "auto",
        /// A file at port 80.
        Http01 = "http-01",
        /// A TLS handshake at port 443.
        TlsAlpn01 = "tls-alpn-01",
    }
}

settings! {
    /// `[memory]`: memory.
    pub struct MemoryConfig {
        /// The memory that terse plans with, at least `64MiB`. An eighth is for cached links
        /// (`cache.size`), five sixteenths are for the caches of the stores, an eighth is for
        /// HTTP/2 connections, three thirty-seconds are for clicks that are not stored yet (at most
        /// 48 MiB), and the rest for everything else.
        pub budget: ByteSize = ByteSize::mib(512),
    }
}

settings! {
    /// `[storage]`: the disk.
    pub struct StorageConfig {
        /// The free space on the disk of `data_dir` that single clicks leave to links. Below it,
        /// terse counts clicks and does not store them one by one. `0B` turns this off.
        pub reserve: ByteSize = ByteSize::mib(256),
    }
}

settings! {
    /// `[shutdown]`: shutdown.
    pub struct ShutdownConfig {
        /// How long terse continues to serve after `/readyz` answers 503. Meanwhile each connection
        /// closes after its next answer, so that clients lose no request. Behind a load balancer,
        /// set more than the time it takes to notice, such as `5s`.
        pub drain_delay: HumanDuration = HumanDuration::secs(1),
        /// The longest time open requests may take to finish after `shutdown.drain_delay`.
        pub timeout: HumanDuration = HumanDuration::secs(10),
    }
}
