//! A mail server that speaks SMTP with STARTTLS and AUTH PLAIN, and keeps what it is sent.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

pub(crate) const USER: &str = "links";
pub(crate) const PASSWORD: &str = "pass word";

/// A mail as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) head: String,
    pub(crate) text: String,
}

#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) mails: Mutex<Vec<Arrived>>,
    /// How many further mails are put off with 451.
    pub(crate) busy: AtomicUsize,
    /// How many times a mail was put off.
    pub(crate) put_off: AtomicUsize,
}

pub(crate) struct SmtpServer {
    pub(crate) address: SocketAddr,
    pub(crate) shared: Arc<Shared>,
    /// Its certificate, to trust.
    pub(crate) ca: PathBuf,
    _folder: tempfile::TempDir,
}

impl SmtpServer {
    pub(crate) fn start() -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let ca = folder.path().join("ca.pem");
        std::fs::write(&ca, made.cert.pem()).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (shared, tls) = (Arc::<Shared>::default(), Arc::new(tls));
        let for_thread = Arc::clone(&shared);
        // Ends with the process: it waits for connections only.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                let _ = serve(stream, &tls, &for_thread);
            }
        });
        Self { address, shared, ca, _folder: folder }
    }

    pub(crate) fn mails(&self) -> Vec<Arrived> {
        self.shared.mails.lock().unwrap().clone()
    }
}

/// The part before TLS: only EHLO and STARTTLS are allowed.
fn serve(mut stream: TcpStream, tls: &Arc<ServerConfig>, shared: &Shared) -> std::io::Result<()> {
    stream.write_all(b"220 mail.example ESMTP\r\n")?;
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        match line.trim_end().split(' ').next().unwrap_or_default() {
            "EHLO" => stream.write_all(b"250-mail.example\r\n250-8BITMIME\r\n250 STARTTLS\r\n")?,
            "STARTTLS" => {
                stream.write_all(b"220 go ahead\r\n")?;
                let connection = ServerConnection::new(Arc::clone(tls)).unwrap();
                return converse(StreamOwned::new(connection, stream), shared);
            }
            _ => stream.write_all(b"530 Must issue a STARTTLS command first\r\n")?,
        }
    }
}

fn converse(stream: impl Read + Write, shared: &Shared) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut signed_in, mut from, mut to) = (false, String::new(), String::new());
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let line = line.trim_end().to_owned();
        let address = || line.split(['<', '>']).nth(1).unwrap_or_default().to_owned();
        let answer = match line.split([' ', ':']).next().unwrap_or_default() {
            "EHLO" => "250-mail.example\r\n250 AUTH LOGIN PLAIN\r\n",
            "AUTH" => {
                let want = STANDARD.encode(format!("\0{USER}\0{PASSWORD}"));
                signed_in = line == format!("AUTH PLAIN {want}");
                if signed_in { "235 welcome\r\n" } else { "535 no\r\n" }
            }
            _ if !signed_in && line != "QUIT" => "530 Authentication required\r\n",
            "MAIL" => {
                from = address();
                "250 ok\r\n"
            }
            "RCPT" => {
                to = address();
                if to.starts_with("nobody@") { "550 no such mailbox\r\n" } else { "250 ok\r\n" }
            }
            "DATA" => {
                stream.get_mut().write_all(b"354 go ahead\r\n")?;
                let message = data(&mut stream)?;
                let busy = shared
                    .busy
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
                if busy.is_ok() {
                    shared.put_off.fetch_add(1, Ordering::SeqCst);
                    "451 try again later\r\n"
                } else {
                    let (head, body) = message.split_once("\r\n\r\n").unwrap();
                    let text = STANDARD.decode(body.replace("\r\n", "")).unwrap();
                    shared.mails.lock().unwrap().push(Arrived {
                        from: from.clone(),
                        to: to.clone(),
                        head: head.to_owned(),
                        text: String::from_utf8(text).unwrap(),
                    });
                    "250 queued\r\n"
                }
            }
            "QUIT" => {
                stream.get_mut().write_all(b"221 bye\r\n")?;
                return stream.get_mut().flush();
            }
            _ => "500 unknown\r\n",
        };
        stream.get_mut().write_all(answer.as_bytes())?;
        stream.get_mut().flush()?;
    }
}

/// The lines up to a single dot.
fn data(stream: &mut BufReader<impl Read>) -> std::io::Result<String> {
    let mut message = String::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 || line == ".\r\n" {
            return Ok(message);
        }
        assert!(line.ends_with("\r\n") && line.len() <= 1000, "a line of {} bytes", line.len());
        message.push_str(line.strip_prefix("..").map_or(line.as_str(), |_| &line[1..]));
    }
}
