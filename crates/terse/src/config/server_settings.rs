//! Settings of the server: who runs it, how it listens and logs, and what it may use.

use std::net::SocketAddr;
use std::path::PathBuf;

use terse_core::{Contact, OperatorName, PageUrl};

use super::lists::Lists;
use super::node::{choice, settings};
use super::values::{BaseUrl, ByteSize, HumanDuration, Paths, Secret};

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
        /// Your email address, which the certificate authority may use to warn you.
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
