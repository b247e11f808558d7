//! Sends mails through the operator's mail server (SMTP, RFC 5321).
//!
//! A small client of its own: terse sends short plain texts, and needs neither attachments nor
//! templates. TLS is rustls, which the HTTP client uses anyway. With STARTTLS or TLS, terse never
//! sends anything without encryption, and credentials go only over an encrypted connection or to
//! this machine.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use terse_core::{EmailAddress, Mail, MailError, MailTransport, Secret};

/// The longest line of a reply.
const MAX_LINE: usize = 2048;
/// The largest number of lines of a reply.
const MAX_LINES: usize = 100;
/// Characters of base64 in a line of the message.
const LINE: usize = 76;
/// How many steps one mail may take, each under its timeout.
const OVERALL: u32 = 6;

/// How the connection is protected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SmtpSecurity {
    /// Begins without TLS and changes to it before anything is sent.
    StartTls,
    /// TLS from the first byte.
    Tls,
    /// No TLS: for a mail server on this machine.
    None,
}

/// How mails are sent.
pub struct SmtpSettings {
    /// The host of the mail server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection is protected.
    pub security: SmtpSecurity,
    /// The name and the password to sign in with.
    pub credentials: Option<(String, Secret)>,
    /// The name in `From`.
    pub from_name: String,
    /// The address in `From`.
    pub from: EmailAddress,
    /// The name of this host, for the greeting.
    pub hello: String,
    /// Trust only these root certificates; if empty, those of Mozilla.
    pub trust_only: Vec<Vec<u8>>,
    /// How long each step may take.
    pub timeout: Duration,
}

/// The client of the mail server.
pub struct SmtpTransport {
    settings: Arc<SmtpSettings>,
    tls: Arc<ClientConfig>,
}

impl SmtpTransport {
    /// Prepares the client. Connects to nothing yet.
    pub fn new(settings: SmtpSettings) -> Result<Self, rustls::Error> {
        let mut roots = RootCertStore::empty();
        for root in &settings.trust_only {
            roots.add(CertificateDer::from(root.clone()))?;
        }
        if settings.trust_only.is_empty() {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { settings: Arc::new(settings), tls: Arc::new(tls) })
    }
}

#[async_trait]
impl MailTransport for SmtpTransport {
    async fn send(&self, mail: &Mail) -> Result<(), MailError> {
        let (settings, tls, mail) =
            (Arc::clone(&self.settings), Arc::clone(&self.tls), mail.clone());
        let overall = settings.timeout * OVERALL;
        let sending = tokio::task::spawn_blocking(move || deliver(&settings, &tls, &mail));
        match tokio::time::timeout(overall, sending).await {
            Ok(Ok(sent)) => sent.map_err(Failure::into_error),
            Ok(Err(_)) => Err(temporary("sending failed unexpectedly")),
            Err(_) => Err(temporary("the mail server took too long")),
        }
    }
}

fn temporary(why: &str) -> MailError {
    MailError { permanent: false, why: why.to_owned() }
}

/// What stopped a delivery.
enum Failure {
    Io(io::Error),
    /// A reply that is not the expected one: what was asked, and the code.
    Reply(&'static str, u16),
    /// The server does not offer what the settings ask for.
    Unsupported(&'static str),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Failure {
    /// Without the words of the server, which may repeat an address.
    fn into_error(self) -> MailError {
        match self {
            Self::Io(error) => temporary(&format!("the connection to the mail server: {error}")),
            Self::Reply(step, code) => MailError {
                permanent: (500..600).contains(&code),
                why: format!("the mail server answered {code} to {step}"),
            },
            Self::Unsupported(what) => {
                MailError { permanent: true, why: format!("the mail server does not offer {what}") }
            }
        }
    }
}

/// A connection, with or without TLS.
enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// A conversation with the mail server.
struct Session {
    stream: Stream,
    /// What was read and not used yet.
    buffer: Vec<u8>,
}

/// A reply: its code, and the text of its lines.
struct Reply {
    code: u16,
    lines: Vec<String>,
}

impl Reply {
    /// The parameters of a capability, if the server offers it.
    fn capability(&self, name: &str) -> Option<&str> {
        self.lines.iter().find_map(|line| {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            word.eq_ignore_ascii_case(name).then_some(rest)
        })
    }
}

impl Session {
    fn line(&mut self) -> Result<String, Failure> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            if self.buffer.len() > MAX_LINE {
                return Err(io::Error::other("a line is too long").into());
            }
            let mut part = [0; 1024];
            match self.stream.read(&mut part)? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                read => self.buffer.extend_from_slice(&part[..read]),
            }
        }
    }

    fn reply(&mut self) -> Result<Reply, Failure> {
        let mut lines = Vec::new();
        while lines.len() < MAX_LINES {
            let line = self.line()?;
            let unreadable = || io::Error::other("this is no mail server");
            let code = line.get(..3).and_then(|code| code.parse().ok()).ok_or_else(unreadable)?;
            lines.push(line.get(4..).unwrap_or_default().to_owned());
            if line.as_bytes().get(3) != Some(&b'-') {
                return Ok(Reply { code, lines });
            }
        }
        Err(io::Error::other("a reply has too many lines").into())
    }

    fn expect(&mut self, step: &'static str, wanted: u16) -> Result<Reply, Failure> {
        let reply = self.reply()?;
        if reply.code == wanted { Ok(reply) } else { Err(Failure::Reply(step, reply.code)) }
    }

    /// Sends a command, which is named in an error without its parameters.
    fn command(&mut self, step: &'static str, line: &str, wanted: u16) -> Result<Reply, Failure> {
        self.stream.write_all(format!("{line}\r\n").as_bytes())?;
        self.stream.flush()?;
        self.expect(step, wanted)
    }

    /// Continues over TLS.
    fn into_tls(self, settings: &SmtpSettings, tls: &Arc<ClientConfig>) -> Result<Self, Failure> {
        // An attacker on the network could have sent what arrived before TLS.
        let (Stream::Plain(tcp), true) = (self.stream, self.buffer.is_empty()) else {
            return Err(io::Error::other("the mail server spoke before TLS began").into());
        };
        let name = ServerName::try_from(settings.host.clone()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(Arc::clone(tls), name).map_err(io::Error::other)?;
        let stream = Stream::Tls(Box::new(StreamOwned::new(connection, tcp)));
        Ok(Self { stream, buffer: Vec::new() })
    }

    fn is_encrypted(&self) -> bool {
        matches!(self.stream, Stream::Tls(_))
    }
}

fn connect(settings: &SmtpSettings) -> Result<TcpStream, Failure> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in (settings.host.as_str(), settings.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, settings.timeout) {
            Ok(stream) => {
                stream.set_read_timeout(Some(settings.timeout))?;
                stream.set_write_timeout(Some(settings.timeout))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last.into())
}

fn deliver(settings: &SmtpSettings, tls: &Arc<ClientConfig>, mail: &Mail) -> Result<(), Failure> {
    let tcp = connect(settings)?;
    let on_this_machine = tcp.peer_addr()?.ip().is_loopback();
    let mut session = Session { stream: Stream::Plain(tcp), buffer: Vec::new() };
    if settings.security == SmtpSecurity::Tls {
        session = session.into_tls(settings, tls)?;
    }
    session.expect("the connection", 220)?;
    let hello = format!("EHLO {}", settings.hello);
    let mut offers = session.command("EHLO", &hello, 250)?;
    if settings.security == SmtpSecurity::StartTls {
        offers.capability("STARTTLS").ok_or(Failure::Unsupported("STARTTLS"))?;
        session.command("STARTTLS", "STARTTLS", 220)?;
        session = session.into_tls(settings, tls)?;
        offers = session.command("EHLO", &hello, 250)?;
    }
    if let Some((name, password)) = &settings.credentials {
        if !session.is_encrypted() && !on_this_machine {
            return Err(Failure::Unsupported("an encrypted connection for the password"));
        }
        let methods = offers.capability("AUTH").ok_or(Failure::Unsupported("AUTH"))?;
        let offered = |wanted: &str| methods.split(' ').any(|m| m.eq_ignore_ascii_case(wanted));
        if offered("PLAIN") {
            let plain = STANDARD.encode(format!("\0{name}\0{}", password.reveal()));
            session.command("AUTH", &format!("AUTH PLAIN {plain}"), 235)?;
        } else if offered("LOGIN") {
            session.command("AUTH", "AUTH LOGIN", 334)?;
            session.command("AUTH", &STANDARD.encode(name), 334)?;
            session.command("AUTH", &STANDARD.encode(password.reveal()), 235)?;
        } else {
            return Err(Failure::Unsupported("AUTH PLAIN or AUTH LOGIN"));
        }
    }
    session.command("MAIL", &format!("MAIL FROM:<{}>", settings.from.as_str()), 250)?;
    session.command("RCPT", &format!("RCPT TO:<{}>", mail.to.as_str()), 250)?;
    session.command("DATA", "DATA", 354)?;
    let message = message(settings, mail);
    session.command("the message", &format!("{message}\r\n."), 250)?;
    // The mail is accepted, whatever the server says to this.
    let _ = session.command("QUIT", "QUIT", 221);
    Ok(())
}

/// The message with its header. Its body is base64, so no line begins with a dot.
fn message(settings: &SmtpSettings, mail: &Mail) -> String {
    let at = jiff::Timestamp::from_millisecond(mail.at.as_ms()).unwrap_or_default();
    let date = at.strftime("%a, %d %b %Y %H:%M:%S +0000");
    let text = mail.text.replace('\n', "\r\n");
    let encoded = STANDARD.encode(text);
    let lines: Vec<&str> =
        encoded.as_bytes().chunks(LINE).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    // The same mail has the same id, so that a mail that is sent twice is shown once.
    let id = id_of(&[mail.to.as_str(), &mail.subject, &mail.text]);
    format!(
        "From: {} <{}>\r\nTo: <{}>\r\nSubject: {}\r\nDate: {date}\r\nMessage-ID: <{id:032x}@{}>\r\n\
         MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Transfer-Encoding: base64\r\nAuto-Submitted: auto-generated\r\n\r\n{}",
        encoded_word(&settings.from_name),
        settings.from.as_str(),
        mail.to.as_str(),
        encoded_word(&mail.subject),
        settings.hello,
        lines.join("\r\n"),
    )
}

/// A text for a header: as an encoded word (RFC 2047), so that no character of it ends the line.
fn encoded_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || " .-".contains(c);
    if !text.is_empty() && text.chars().all(plain) && text.len() < 60 {
        return text.to_owned();
    }
    let mut words = Vec::new();
    let mut word = String::new();
    for c in text.chars().filter(|c| !c.is_control()) {
        if word.len() + c.len_utf8() > 42 {
            words.push(std::mem::take(&mut word));
        }
        word.push(c);
    }
    words.push(word);
    let words = words.iter().map(|word| format!("=?utf-8?B?{}?=", STANDARD.encode(word)));
    words.collect::<Vec<_>>().join("\r\n ")
}

/// A number for an id.
fn id_of(parts: &[&str]) -> u128 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, parts).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    (half(0) << 64) | half(1)
}
