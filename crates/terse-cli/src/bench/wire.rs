//! A connection that sends bytes and reads one response at a time, without allocating.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::Range;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The largest response. A bulk response for a thousand links is much smaller.
const MAX_ANSWER: usize = 64 << 20;
const MAX_FIELDS: usize = 64;

/// The server under test.
#[derive(Clone, Debug)]
pub struct BenchTarget {
    address: SocketAddr,
    host: String,
}

impl BenchTarget {
    /// Parses `http://HOST:PORT` and resolves the name, once.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let Some(rest) = text.strip_prefix("http://") else {
            bail!("expected http://HOST:PORT; TLS is not supported")
        };
        let host = rest.trim_end_matches('/');
        if host.is_empty() || host.contains(|c: char| c == '/' || c.is_ascii_control() || c == ' ')
        {
            bail!("expected http://HOST:PORT and nothing after it");
        }
        let port = if host.ends_with(']') || !host.contains(':') { ":80" } else { "" };
        let address = format!("{host}{port}")
            .to_socket_addrs()
            .context("looking up the host")?
            .next()
            .context("no such host")?;
        Ok(Self { address, host: host.into() })
    }

    /// The value of `Host`.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// A fresh connection.
    pub(super) async fn connect(&self) -> io::Result<BenchConnection> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(BenchConnection { stream, buffer: vec![0; 4096], filled: 0, used: 0 })
    }
}

impl fmt::Display for BenchTarget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "http://{}", self.host)
    }
}

/// One connection; requests on it follow one another.
#[derive(Debug)]
pub(super) struct BenchConnection {
    stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
    used: usize,
}

/// A response; its body is still in the wire's buffer.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Whether there is a `Location` that is not empty.
    pub(super) location: bool,
    /// Whether the server accepts another request on this connection.
    pub(super) keep: bool,
    body: Range<usize>,
}

impl BenchConnection {
    /// Sends a request and waits for the complete response.
    pub(super) async fn exchange(&mut self, request: &[u8]) -> io::Result<Answer> {
        // The server sent more bytes than one response: its latency cannot be measured.
        if self.filled != self.used {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the server sent more than it was asked for",
            ));
        }
        (self.filled, self.used) = (0, 0);
        self.stream.write_all(request).await?;
        let mut wanted = 0;
        loop {
            if self.filled == self.buffer.len() {
                self.grow(wanted)?;
            }
            let count = self.stream.read(&mut self.buffer[self.filled..]).await?;
            if count == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the connection was closed before the answer was whole",
                ));
            }
            self.filled += count;
            if self.filled < wanted {
                continue;
            }
            if let Some(answer) = parse(&self.buffer[..self.filled])? {
                wanted = answer.body.end;
                if self.filled >= wanted {
                    self.used = wanted;
                    return Ok(answer);
                }
            }
        }
    }

    /// The body of the last response.
    pub(super) fn body(&self, answer: &Answer) -> &[u8] {
        &self.buffer[answer.body.clone()]
    }

    fn grow(&mut self, wanted: usize) -> io::Result<()> {
        let size = wanted.max(self.buffer.len() * 2);
        if size > MAX_ANSWER {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the answer is larger than any we ask for",
            ));
        }
        self.buffer.resize(size, 0);
        Ok(())
    }
}

/// Parses the head of a response; `None` if it is not complete yet.
fn parse(bytes: &[u8]) -> io::Result<Option<Answer>> {
    let invalid = |what: &'static str| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut head = httparse::Response::new(&mut fields);
    let start = match head.parse(bytes) {
        Ok(httparse::Status::Complete(start)) => start,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(invalid("the answer is not HTTP")),
    };
    let status = head.code.unwrap_or(0);
    let (mut length, mut location, mut keep) = (None, false, head.version == Some(1));
    for field in head.headers.iter() {
        // Comparing the length first is cheap and rules out most fields.
        match field.name.len() {
            14 if field.name.eq_ignore_ascii_case("content-length") => {
                let digits = std::str::from_utf8(field.value)
                    .ok()
                    .and_then(|text| text.trim().parse::<usize>().ok());
                length = Some(
                    digits
                        .filter(|&n| n <= MAX_ANSWER)
                        .ok_or_else(|| invalid("the answer's length is not one"))?,
                );
            }
            8 if field.name.eq_ignore_ascii_case("location") => location = !field.value.is_empty(),
            10 if field.name.eq_ignore_ascii_case("connection") => {
                keep &= !field.value.eq_ignore_ascii_case(b"close");
            }
            17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                return Err(invalid("chunked answers are not read here"));
            }
            _ => {}
        }
    }
    let length = match (status, length) {
        (100..200 | 204 | 304, _) => 0,
        (_, Some(length)) => length,
        (_, None) => return Err(invalid("the answer does not say how long it is")),
    };
    Ok(Some(Answer { status, location, keep, body: start..start + length }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_known_by_its_head() {
        let bytes =
            b"HTTP/1.1 302 Found\r\nlocation: https://example.com/\r\nContent-Length: 2\r\n\r\nok";
        let answer = parse(bytes).unwrap().unwrap();
        assert_eq!((answer.status, answer.location, answer.keep), (302, true, true));
        assert_eq!(&bytes[answer.body], b"ok");
    }

    #[test]
    fn half_a_head_is_no_answer_yet() {
        assert_eq!(parse(b"HTTP/1.1 302 Found\r\nLoca").unwrap(), None);
    }

    #[test]
    fn an_empty_location_leads_nowhere() {
        let answer = parse(
            b"HTTP/1.1 302 Found\r\nLocation:\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        )
        .unwrap()
        .unwrap();
        assert!(!answer.location && !answer.keep);
    }

    #[test]
    fn what_cannot_be_measured_is_an_error() {
        for wrong in [
            "SSH-2.0-OpenSSH\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        ] {
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_server_is_an_address_and_nothing_more() {
        assert_eq!(
            BenchTarget::parse("http://127.0.0.1:8080/").unwrap().to_string(),
            "http://127.0.0.1:8080"
        );
        assert_eq!(BenchTarget::parse("http://127.0.0.1").unwrap().address.port(), 80);
        assert_eq!(BenchTarget::parse("http://[::1]").unwrap().address.port(), 80);
        for wrong in [
            "",
            "127.0.0.1:80",
            "https://127.0.0.1",
            "http://",
            "http://127.0.0.1:80/x",
            "http://a b",
        ] {
            assert!(BenchTarget::parse(wrong).is_err(), "{wrong}");
        }
    }
}
