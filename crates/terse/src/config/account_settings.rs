//! Settings of accounts: who may sign up and sign in, mail, and rate limits.

use std::path::PathBuf;

use terse_core::limits::Limit;

use super::node::{choice, settings};
use super::values::{HumanDuration, Secret};

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
        /// How the connection is protected: `starttls` (usual with port 587), `tls` (usual with
        /// port 465) or `none`, for a mail server on this machine.
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
