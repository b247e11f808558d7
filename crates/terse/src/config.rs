//! The settings, and where they come from.
//!
//! Defaults, then `terse.toml`, then `TERSE_…`, then flags: read once, checked once, and handed
//! down in parts. A name that nobody knows is refused at every layer, so that a typo never passes
//! silently.

mod check;
mod layers;
mod lists;
mod node;
mod show;
mod values;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use terse_core::Proxies;
use terse_core::limits::Limit;
use url::Url;

pub use layers::{ConfigError, Loaded, Origin, Sources};
pub use lists::{ListPlace, ListSource, Lists};
use node::{choice, settings};
pub use values::{BaseUrl, ByteSize, Roles, Secret, Span, StoreUrl};

settings! {
    /// Everything that can be set.
    pub struct Config {
        /// Where visitors, programs and people connect.
        pub listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 8080)),
        /// The folder everything is kept in. Made at the first start, readable by its owner only.
        pub data_dir: PathBuf = "./terse-data".into(),
        /// What short links begin with: scheme and host, no path. If it is not set, it follows
        /// `listen`.
        pub base_url: Option<BaseUrl> = None,
        /// Further short domains, as host names.
        pub domains: Vec<String> = vec![],
        /// Proxies before terse, as addresses or ranges such as `10.0.0.0/8`. Only what they say in
        /// `X-Forwarded-For` about where a visitor comes from is believed.
        pub trusted_proxies: Vec<String> = vec![],
        /// A key that may do everything, given from outside; 16 to 256 visible characters.
        pub admin_key: Option<Secret> = None,
        /// Where links are kept. `file:` is the embedded store; its path is below `data_dir` unless
        /// it is absolute.
        pub store: StoreUrl = StoreUrl::File("terse.db".into()),
        /// What this process does; fewer than all only where several processes share the work.
        pub roles: Roles = Roles::ALL,
        /// How codes are made.
        pub codes: Codes = Codes::default(),
        /// What is remembered of links.
        pub cache: Cache = Cache::default(),
        /// How visitors are answered.
        pub redirect: Redirect = Redirect::default(),
        /// Counting visits.
        pub clicks: Clicks = Clicks::default(),
        /// Links made without a key.
        pub anonymous: Anonymous = Anonymous::default(),
        /// People with an account.
        pub accounts: Accounts = Accounts::default(),
        /// Signing in with an account elsewhere.
        pub oidc: Oidc = Oidc::default(),
        /// How often something may be done.
        pub limits: Limits = Limits::default(),
        /// Which targets are refused or warned of.
        pub safety: Safety = Safety::default(),
        /// What is asked of other servers.
        pub outgoing: Outgoing = Outgoing::default(),
        /// What becomes of links that are over.
        pub links: LinkRetention = LinkRetention::default(),
        /// For those who watch over the server.
        pub admin: Admin = Admin::default(),
        /// What is written to standard error.
        pub log: Log = Log::default(),
        /// How the server stops.
        pub shutdown: Shutdown = Shutdown::default(),
    }
}

settings! {
    /// `[codes]`: how codes are made.
    pub struct Codes {
        /// `numbered`: unique by construction, looks random. `random`: tries until one is free.
        /// `hash`: the same target of the same owner gets the same code. `snowflake`: time, machine
        /// and a counter; longer codes.
        pub strategy: Strategy = Strategy::Numbered,
        /// How long generated codes are, 4 to 10. When a length is used up, the next one begins.
        pub length: u8 = 7,
        /// `base58` leaves out `0`, `O`, `I` and `l`. Fixed when a store is made.
        pub alphabet: Alphabet = Alphabet::Base62,
        /// How many numbers are taken from the store at once, 1 to 100000. A crash wastes what is
        /// left of them.
        pub lease: u32 = 1000,
        /// The number of this machine, for `snowflake`; different on each.
        pub machine: u8 = 0,
        /// Whether an alias is also found in other mixtures of upper and lower case, when there is
        /// no exact match.
        pub loose: bool = false,
    }
}

choice! {
    /// How codes are made.
    pub enum Strategy ("`numbered`, `random`, `hash`, `snowflake`") {
        /// Leased numbers through a keyed bijection.
        Numbered = "numbered",
        /// Random, again on conflict.
        Random = "random",
        /// From target and owner.
        Hash = "hash",
        /// Time, machine, sequence.
        Snowflake = "snowflake",
    }
}

choice! {
    /// What generated codes are made of.
    pub enum Alphabet ("`base62`, `base58`") {
        /// Digits and both cases.
        Base62 = "base62",
        /// The same without look-alikes.
        Base58 = "base58",
    }
}

settings! {
    /// `[cache]`: links remembered in memory.
    pub struct Cache {
        /// How much memory remembered links may take; at least `1MiB`.
        pub size: ByteSize = ByteSize::mib(64),
        /// How long a link is remembered before the store is asked again; `1s` to `1d`.
        pub ttl: Span = Span::secs(300),
        /// How long it is remembered that a code does not exist; at most `60s`.
        pub negative_ttl: Span = Span::secs(30),
        /// How many codes that do not exist are remembered.
        pub negative_entries: u32 = 65_536,
    }
}

settings! {
    /// `[redirect]`: the hot path.
    pub struct Redirect {
        /// How many threads answer visitors; 0 is one per core.
        pub threads: u16 = 0,
        /// `status`: a failed visit gets its status and a page. `page`: it is sent to
        /// `/r/{code}?error=…` instead.
        pub errors: Errors = Errors::Status,
        /// How long browsers may remember a 301 or 308, `0s` to `365d`. What they remember cannot
        /// be taken back.
        pub permanent_max_age: Span = Span::days(1),
        /// How long a visitor waits for the store at most; `1ms` to `60s`.
        pub store_timeout: Span = Span::ms(500),
        /// How many lookups may be under way in the store at once.
        pub store_concurrency: u32 = 256,
        /// How long a client may take to send the head of a request; `1s` to `5m`.
        pub header_timeout: Span = Span::secs(10),
        /// How long a connection may be idle between requests; `1s` to `1h`.
        pub idle_timeout: Span = Span::secs(75),
        /// How many connections are open at once at most; needs as many open files.
        pub max_connections: u32 = 20_000,
    }
}

choice! {
    /// How a failed visit is answered.
    pub enum Errors ("`status`, `page`") {
        /// By its status.
        Status = "status",
        /// By a redirect to a page.
        Page = "page",
    }
}

settings! {
    /// `[clicks]`: counting visits.
    pub struct Clicks {
        /// Whether visits are counted. What was counted before stays.
        pub enabled: bool = true,
        /// Where clicks are counted, written like `store`.
        pub store: StoreUrl = StoreUrl::File("clicks.db".into()),
        /// How much of the disk visits may take that are not counted yet, at least `16MiB`, beside
        /// what is being written. Beyond it the oldest are dropped.
        pub journal_size: ByteSize = ByteSize::mib(1024),
        /// How long every single click is kept; `0s` keeps sums only.
        pub keep_raw: Span = Span::days(90),
        /// How long sums are kept by the hour, at least `2d`; afterwards by the day.
        pub keep_hours: Span = Span::days(30),
        /// What is kept of a visitor's address: `cut` leaves the first 24 bits of IPv4 and 48 of
        /// IPv6, `none` only the country it belongs to, `full` all of it.
        pub address: Addresses = Addresses::Cut,
        /// Whether of visitors who ask not to be tracked (`DNT`, `Sec-GPC`) nothing but the visit
        /// is counted.
        pub honour_dnt: bool = true,
        /// A database of places in MaxMind's format, instead of the countries that come with terse.
        /// Read again when it changes.
        pub geo_database: Option<PathBuf> = None,
    }
}

choice! {
    /// What is kept of a visitor's address.
    pub enum Addresses ("`cut`, `none`, `full`") {
        /// Its beginning.
        Cut = "cut",
        /// Nothing.
        Nothing = "none",
        /// All of it.
        Full = "full",
    }
}

settings! {
    /// `[anonymous]`: links made without a key.
    pub struct Anonymous {
        /// Whether links can be made without a key.
        pub create: bool = true,
        /// How long such links live; at least `1s`.
        pub ttl: Span = Span::secs(8 * 3600),
    }
}

settings! {
    /// `[accounts]`: people with an account.
    pub struct Accounts {
        /// `closed`: accounts are made by invitation, or by an admin. `open`: anybody may make one
        /// at `/signup`.
        pub sign_up: SignUp = SignUp::Closed,
        /// How long a browser stays signed in; `1m` to `365d`.
        pub session_ttl: Span = Span::days(30),
    }
}

choice! {
    /// Who may make an account.
    pub enum SignUp ("`closed`, `open`") {
        /// Whoever is invited.
        Closed = "closed",
        /// Anybody.
        Open = "open",
    }
}

settings! {
    /// `[oidc]`: signing in with an account elsewhere, by OpenID Connect.
    pub struct Oidc {
        /// The provider, such as `https://id.example.com`; by https, unless it is on this machine.
        /// What else is to be known of it is found there. It sends people back to
        /// `/auth/oidc/callback`.
        pub issuer: Option<String> = None,
        /// What the provider calls this server.
        pub client_id: Option<String> = None,
        /// What the provider has given this server to be known by. Without it, only PKCE protects
        /// the exchange.
        pub client_secret: Option<Secret> = None,
        /// What people call the provider. Its host name, if it is not set.
        pub name: Option<String> = None,
        /// Whether whoever the provider knows gets an account at the first sign-in. Otherwise they
        /// connect one they have, or are invited.
        pub sign_up: bool = false,
    }
}

settings! {
    /// `[limits]`: how often something may be done.
    pub struct Limits {
        /// How many links one address may make without a key, as in `30/h`, `5/m`, `1/s` or
        /// `100/d`; `0` is no limit. An address is one of IPv4 or a /64 of IPv6; a /48 of IPv6 has
        /// eight times as much.
        pub create_per_ip: Limit = Limit::per_hour(30),
        /// How many links may be made with one key. Admins' keys are not limited.
        pub create_per_key: Limit = Limit::per_hour(100),
        /// How many links one address may follow.
        pub redirect_per_ip: Limit = Limit::OFF,
        /// How often one link may be followed.
        pub redirect_per_code: Limit = Limit::OFF,
        /// How many links one address may ask for that do not exist. Beyond it, such are answered
        /// 429; other links go on working.
        pub guesses_per_ip: Limit = Limit::per_minute(60),
        /// How many times one address may be wrong about the passwords of links. Beyond it, 429.
        /// All addresses together may be wrong about one link twenty times as often.
        pub password_attempts_per_ip: Limit = Limit::per_hour(10),
        /// How often somebody may try to sign in from one address; and as often under one name,
        /// wherever from. Attempts that succeed do not count.
        pub sign_in_per_ip: Limit = Limit::per_minute(10),
        /// How many reports one address may write.
        pub report_per_ip: Limit = Limit::per_hour(10),
    }
}

settings! {
    /// `[safety]`: targets that are refused, and targets that visitors are warned of.
    pub struct Safety {
        /// Blocklists: files and https URLs, each also as `name=…`. Hosts files, lists of domains
        /// or URLs, and the CSV of PhishTank and URLhaus are understood. A link to what is on a
        /// list is refused, and links that exist are taken down.
        pub lists: Lists = Lists::default(),
        /// How often lists from elsewhere are fetched, `1m` to `7d`. Files are read again when they
        /// change.
        pub lists_every: Span = Span::secs(3600),
        /// What puts a warning page before a link. Leave out what your links often are, or set
        /// none.
        pub warn_on: Vec<String> = terse_safety::FlagSet::default_warnings().iter().map(|flag| flag.as_str().to_owned()).collect(),
        /// A key for Google Safe Browsing. With it, its lists of dangerous pages are kept here, and
        /// it is asked about targets that may be on them: by a part of a hash, so that it does not
        /// learn the target.
        pub safe_browsing_key: Option<Secret> = None,
        /// Where Safe Browsing is asked, if not at Google: a proxy of yours. https, unless it is on
        /// this machine.
        pub safe_browsing_url: Option<BaseUrl> = None,
        /// How often all links are judged again though no list has changed; `1m` to `365d`.
        pub rescan_every: Span = Span::days(1),
        /// Hosts that nobody may shorten, each with all names below it.
        pub blocked_hosts: Vec<String> = vec![],
        /// Whether links may lead to private and loopback addresses.
        pub allow_private_targets: bool = false,
    }
}

settings! {
    /// `[outgoing]`: what is asked of other servers. Nothing, unless you say so.
    pub struct Outgoing {
        /// Whether owners may have programs of theirs told what happens to their links; see
        /// webhooks.md.
        pub webhooks: bool = false,
        /// Whether a link that is made without a title gets that of the page it leads to.
        pub titles: bool = false,
        /// Whether it is looked now and then if targets still answer. Links whose target did not on
        /// three days get the flag `unreachable`.
        pub check_targets: bool = false,
        /// Whether receivers, titles and targets may be in private networks, and receivers be
        /// reached by http. For an intranet: any owner can then make terse knock at doors inside
        /// it.
        pub allow_private: bool = false,
    }
}

settings! {
    /// `[links]`: what becomes of links that are over.
    pub struct LinkRetention {
        /// How long a deleted or expired link is kept; until then a deleted one can be brought
        /// back.
        pub grace: Span = Span::days(7),
        /// How long after that an alias that somebody chose is held: until then only its former
        /// owner gets it. `0s` is not at all. The codes of blocked links are held for ever.
        pub quarantine: Span = Span::days(365),
        /// How often links that are over are looked for; `1s` to `1d`.
        pub reap_every: Span = Span::secs(15 * 60),
        /// How many are removed in one step, 1 to 100000.
        pub reap_batch: u32 = 1000,
    }
}

settings! {
    /// `[admin]`: for those who watch over the server.
    pub struct Admin {
        /// If set, health and metrics are answered here and no longer at `listen`.
        pub listen: Option<SocketAddr> = None,
    }
}

settings! {
    /// `[log]`: what is written to standard error.
    pub struct Log {
        /// `text` for people, `json` for programs.
        pub format: LogFormat = LogFormat::Text,
        /// How much: `error`, `warn`, `info`, `debug`, `trace`, also by part, as in
        /// `info,terse_server=debug`.
        pub level: String = "info".into(),
    }
}

choice! {
    /// How log lines look.
    pub enum LogFormat ("`text`, `json`") {
        /// For people.
        Text = "text",
        /// For programs.
        Json = "json",
    }
}

settings! {
    /// `[shutdown]`: how the server stops.
    pub struct Shutdown {
        /// How long to go on serving after `/readyz` has turned 503, so that load balancers notice;
        /// fleets set `5s`.
        pub drain_delay: Span = Span::secs(0),
        /// How long requests may take to finish after that.
        pub timeout: Span = Span::secs(10),
    }
}

impl Limits {
    /// Nothing is limited.
    pub fn off() -> Self {
        Self {
            create_per_ip: Limit::OFF,
            create_per_key: Limit::OFF,
            redirect_per_ip: Limit::OFF,
            redirect_per_code: Limit::OFF,
            guesses_per_ip: Limit::OFF,
            password_attempts_per_ip: Limit::OFF,
            sign_in_per_ip: Limit::OFF,
            report_per_ip: Limit::OFF,
        }
    }
}

impl Config {
    /// Reads and checks all layers.
    pub fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
        layers::load(sources)
    }

    /// What short links begin with.
    pub fn base_url(&self) -> Url {
        self.base_url_at(self.listen)
    }

    /// What short links begin with if the server really listens here: with port 0 only the listener
    /// knows.
    pub fn base_url_at(&self, listen: SocketAddr) -> Url {
        if let Some(base) = &self.base_url {
            return base.url().clone();
        }
        // "Every address" is a place to listen at, not one to go to.
        let host = match listen.ip() {
            ip if ip.is_unspecified() => "localhost".to_owned(),
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        Url::parse(&format!("http://{host}:{}/", listen.port()))
            .expect("an address and a port make a URL")
    }

    /// The embedded store's file.
    pub fn store_file(&self) -> PathBuf {
        let StoreUrl::File(path) = &self.store;
        self.data_dir.join(path)
    }

    /// The file that clicks are counted in.
    pub fn clicks_file(&self) -> PathBuf {
        let StoreUrl::File(path) = &self.clicks.store;
        self.data_dir.join(path)
    }

    /// Where the owners are.
    pub fn registry_file(&self) -> PathBuf {
        self.data_dir.join("registry.db")
    }

    /// The provider that people can sign in with, checked when the settings were read.
    pub(crate) fn issuer(&self) -> Result<Option<Url>, String> {
        let Some(text) = &self.oidc.issuer else { return Ok(None) };
        let url = Url::parse(text)
            .map_err(|_| "an absolute URL such as https://id.example.com is expected")?;
        let local = match url.host() {
            Some(url::Host::Domain(name)) => name == "localhost",
            Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
            Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
            None => false,
        };
        if url.scheme() != "https" && !(url.scheme() == "http" && local) {
            return Err("https is needed, but for a provider on this machine".into());
        }
        if url.query().is_some()
            || url.fragment().is_some()
            || !url.username().is_empty()
            || url.password().is_some()
        {
            return Err("a query, a fragment or a password does not belong here".into());
        }
        Ok(Some(url))
    }

    /// The proxies whose word is taken; checked when the settings were read.
    pub fn proxies(&self) -> Result<Proxies, String> {
        self.trusted_proxies
            .iter()
            .map(|range| range.parse())
            .collect::<Result<_, _>>()
            .map(Proxies::new)
    }

    /// Every setting as a table for the manual.
    pub fn markdown() -> String {
        show::markdown()
    }
}
