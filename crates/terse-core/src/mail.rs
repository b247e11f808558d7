//! Mails of this server: reset links and invitations.
//!
//! A request goes into a bounded queue in memory, and a job (`worker/mail.rs`) sends it. The page
//! that asked does not wait, so its answer and its time do not show whether an account exists. A
//! request that is lost with the process can be made again.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::Notify;

use crate::metrics::Metrics;
use crate::registry::AccountName;
use crate::time::Timestamp;

/// How many mails wait at most.
const MAX_WAITING: usize = 200;

/// An address that mail can be sent to: ASCII, without quotes and comments.
#[derive(Clone, Eq, PartialEq)]
pub struct EmailAddress(Box<str>);

impl EmailAddress {
    /// The longest address, in bytes (RFC 5321).
    pub const MAX: usize = 254;

    /// Checks and parses an address.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (local, domain) = text.rsplit_once('@')?;
        let plain =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~.".contains(&byte);
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        let fits = text.len() <= Self::MAX
            && (1..=64).contains(&local.len())
            && local.bytes().all(plain)
            && !local.split('.').any(str::is_empty)
            && domain.contains('.')
            && domain.split('.').all(label);
        fits.then(|| Self(text.into()))
    }

    /// The address as typed.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// An address is personal data: logs do not have it.
impl fmt::Debug for EmailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EmailAddress([hidden])")
    }
}

/// A mail to send, as plain text.
#[derive(Clone, Debug)]
pub struct Mail {
    /// The recipient.
    pub to: EmailAddress,
    /// The subject, in one line.
    pub subject: String,
    /// The text.
    pub text: String,
    /// When it is sent.
    pub at: Timestamp,
}

/// Why a mail was not sent. Says nothing about its content.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct MailError {
    /// Whether another attempt cannot succeed either.
    pub permanent: bool,
    /// What the mail server said, or what failed.
    pub why: String,
}

/// Sends mails.
#[async_trait]
pub trait MailTransport: Send + Sync {
    /// Hands one mail to the mail server, under a timeout. `Ok` if the server has accepted it.
    async fn send(&self, mail: &Mail) -> Result<(), MailError>;
}

/// What a mail is about.
#[derive(Clone, Debug)]
pub enum MailRequest {
    /// A link to choose a new password, for the account with this name. The queue sends nothing if
    /// there is no such account, or if the account has no email address.
    PasswordReset(AccountName),
    /// An invitation to create an account.
    Invitation {
        /// The recipient.
        to: EmailAddress,
        /// The link of the invitation.
        url: String,
        /// When it expires.
        expires_at: Timestamp,
    },
}

/// A request with the attempts so far.
#[derive(Clone, Debug)]
pub struct QueuedMail {
    /// The request.
    pub request: MailRequest,
    /// How often sending it has failed.
    pub attempts: u32,
    /// When it is tried.
    pub due: Timestamp,
    /// The mail, once it was written: a further attempt sends the same link.
    pub mail: Option<Mail>,
}

/// The mails that wait on this node.
#[derive(Debug, Default)]
pub struct MailQueue {
    waiting: Mutex<VecDeque<QueuedMail>>,
    wake: Notify,
    sent: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
}

impl MailQueue {
    /// Adds a request. `false` if too many wait: nothing is sent then.
    pub fn push(&self, request: MailRequest, now: Timestamp) -> bool {
        self.push_again(QueuedMail { request, attempts: 0, due: now, mail: None })
    }

    /// Adds a request that was tried before.
    pub fn push_again(&self, queued: QueuedMail) -> bool {
        let mut waiting = self.lock();
        if waiting.len() >= MAX_WAITING {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        waiting.push_back(queued);
        drop(waiting);
        self.wake.notify_one();
        true
    }

    /// Takes a request that is due.
    pub fn take(&self, now: Timestamp) -> Option<QueuedMail> {
        let mut waiting = self.lock();
        let place = waiting.iter().position(|queued| queued.due <= now)?;
        waiting.remove(place)
    }

    /// Resolves when a request was added.
    pub async fn added(&self) {
        self.wake.notified().await;
    }

    /// Counts a mail that was sent, or given up.
    pub fn count(&self, is_sent: bool) {
        let counter = if is_sent { &self.sent } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes the counters.
    pub fn write_metrics(&self, to: &mut Metrics) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let outcomes = [
            ("sent", read(&self.sent)),
            ("failed", read(&self.failed)),
            ("dropped", read(&self.dropped)),
        ];
        to.counters("terse_mails", "Mails, by what became of them", "outcome", outcomes);
        let waiting = self.lock().len() as f64;
        to.gauge("terse_mails_waiting", "Mails that wait to be sent", waiting);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<QueuedMail>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_plain() {
        for good in ["ann@example.com", "a.b+c@mail.example.co", " ann@example.com "] {
            assert!(EmailAddress::parse(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "ann",
            "@example.com",
            "ann@",
            "ann@localhost",
            "ann@-a.com",
            "a..b@example.com",
            "ann@example.com\r\nRCPT TO:<x@y.z>",
            "ann <ann@example.com>",
            "änn@example.com",
            "a@b@example..com",
            &format!("{}@example.com", "a".repeat(65)),
        ] {
            assert!(EmailAddress::parse(bad).is_none(), "{bad:?}");
        }
        let address = EmailAddress::parse("ann@example.com").unwrap();
        assert!(!format!("{address:?}").contains("ann"));
    }

    #[test]
    fn the_queue_has_a_bound_and_gives_what_is_due() {
        let queue = MailQueue::default();
        let at = Timestamp::from_ms;
        let name = AccountName::parse("ann").unwrap();
        let request = || MailRequest::PasswordReset(name.clone());
        let later = QueuedMail { request: request(), attempts: 1, due: at(10), mail: None };
        assert!(queue.push_again(later));
        assert!(queue.push(request(), at(5)));
        assert_eq!(queue.take(at(5)).unwrap().attempts, 0);
        assert!(queue.take(at(5)).is_none());
        assert_eq!(queue.take(at(10)).unwrap().attempts, 1);
        assert!((0..MAX_WAITING).all(|_| queue.push(request(), at(1))));
        assert!(!queue.push(request(), at(1)), "one too many");
    }
}
