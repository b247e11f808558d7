//! What one node knows of the certificates that terse orders.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use terse_core::CheckResult::{Good, Problem, Warning};
use terse_core::registry::{AcmeRecordKind, AcmeRecords, AcmeStore, RegistryError};
use terse_core::{
    CertificateState, CertificateStatus, Clock, Finding, Hosts, Secret, Timestamp, is_public_name,
};
use tokio::sync::Notify;

use super::challenges::{ChallengeKind, challenge_certificate};
use super::diagnosis::own_words;
use super::records::{CertificateRecord, ChallengeRecord, OrderRecord, decode};
use super::schedule::renew_at;
use crate::certificate::Certificate;
use crate::certificates::Certificates;

/// A client that asks for a host without a certificate starts the orders at most this often.
const WAKE_SECONDS: u64 = 5;
/// A host without a certificate whose order no node has begun for this long is a problem.
const MAX_WAIT: Duration = Duration::from_mins(10);
/// How often a node looks which hosts wait.
const WAIT_CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// The certificates that terse orders, as one node knows them: reads them from the registry, puts
/// them to use, answers challenges, and tells their state.
pub struct AcmeCertificates {
    registry: Arc<dyn AcmeStore>,
    certificates: Arc<Certificates>,
    hosts: Hosts,
    directory: String,
    pub(crate) clock: Clock,
    known: RwLock<Arc<AcmeState>>,
    /// Held while the registry is read and what it has is put to use, so that the later read wins.
    refreshing: tokio::sync::Mutex<()>,
    waiting: Mutex<Waiting>,
    /// A client asked for one of our hosts that has no certificate.
    pub(crate) wanted: Notify,
    /// When that last happened, in seconds of the steady clock.
    wanted_at: AtomicU64,
}

/// What the registry had at one moment.
#[derive(Default)]
pub(crate) struct AcmeState {
    revision: u64,
    pub(crate) account: Option<Secret>,
    pub(crate) certificates: BTreeMap<String, Certificate>,
    pub(crate) orders: BTreeMap<String, OrderRecord>,
    /// The hosts with a challenge.
    pub(crate) challenges: Vec<String>,
    /// The answers of HTTP-01, by token.
    answers: HashMap<String, String>,
}

/// The hosts that wait for a first certificate.
#[derive(Default)]
struct Waiting {
    /// When to look next which hosts wait, by the steady clock.
    check_at: Duration,
    /// Since when each of them waits, by the steady clock.
    since: BTreeMap<String, Duration>,
}

impl AcmeCertificates {
    /// Reads what the registry has, and uses the certificates.
    pub async fn open(
        registry: Arc<dyn AcmeStore>,
        certificates: Arc<Certificates>,
        hosts: Hosts,
        directory: String,
        clock: Clock,
    ) -> Result<Arc<Self>, RegistryError> {
        let node = Arc::new(Self {
            registry,
            certificates,
            hosts,
            directory,
            clock,
            known: RwLock::default(),
            refreshing: tokio::sync::Mutex::default(),
            waiting: Mutex::default(),
            wanted: Notify::new(),
            wanted_at: AtomicU64::new(0),
        });
        node.refresh().await?;
        let weak = Arc::downgrade(&node);
        node.certificates.on_missing(move |host| {
            if let Some(node) = weak.upgrade() {
                node.note_missing(host);
            }
        });
        Ok(node)
    }

    pub(crate) fn registry(&self) -> &Arc<dyn AcmeStore> {
        &self.registry
    }

    pub(crate) fn known(&self) -> Arc<AcmeState> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The answer to a challenge of the kind HTTP-01, the content of the file with this name.
    pub fn challenge_answer(&self, token: &str) -> Option<String> {
        self.known().answers.get(token).cloned()
    }

    /// Reads the registry if it has changed, and puts what it has to use. Its revision may be lower
    /// than the known one: an operator has restored an old copy.
    pub(crate) async fn refresh(&self) -> Result<(), RegistryError> {
        let _refreshing = self.refreshing.lock().await;
        let known = self.known().revision;
        if self.registry.acme_revision().await? != known {
            self.apply(self.registry.acme_records().await?);
        }
        Ok(())
    }

    pub(crate) fn apply(&self, records: AcmeRecords) {
        let mut new = AcmeState { revision: records.revision, ..AcmeState::default() };
        let mut alpn = HashMap::new();
        for record in &records.records {
            let host = &record.name;
            match record.kind {
                AcmeRecordKind::Account if *host == self.directory => {
                    new.account = Some(record.value.clone());
                }
                // An account at another authority, which the settings named earlier.
                AcmeRecordKind::Account => {}
                AcmeRecordKind::Certificate => {
                    let read = decode(record).and_then(|stored: CertificateRecord| {
                        Certificate::parse(stored.chain.as_bytes(), stored.key.as_bytes()).ok()
                    });
                    match read {
                        Some(read) => drop(new.certificates.insert(host.clone(), read)),
                        None => tracing::warn!(host, "a stored certificate cannot be used"),
                    }
                }
                AcmeRecordKind::Challenge => {
                    new.challenges.push(host.clone());
                    let Some(challenge) = decode::<ChallengeRecord>(record) else { continue };
                    match challenge.kind {
                        ChallengeKind::Http01 => {
                            new.answers.insert(challenge.token, challenge.answer);
                        }
                        ChallengeKind::TlsAlpn01 => {
                            let made = challenge_certificate(host, &challenge.digest);
                            alpn.extend(made.map(|made| (host.clone(), made)));
                        }
                    }
                }
                AcmeRecordKind::Order => {
                    new.orders.extend(decode(record).map(|order| (host.clone(), order)));
                }
            }
        }
        // The primary domain's first: clients that ask for no name get it.
        let primary = new.certificates.get(self.hosts.primary_host());
        let issued = primary.into_iter().chain(new.certificates.values()).cloned().collect();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        self.certificates.set_issued(issued);
        self.certificates.set_challenges(alpn);
        *known = Arc::new(new);
    }

    /// The hosts that get a certificate: the short domains and the host of the API, if they are
    /// public names and no file has a certificate for them.
    pub(crate) fn ordered_hosts(&self) -> Vec<String> {
        let (hosts, files) = (&self.hosts, self.certificates.only_files());
        let mut all: Vec<String> =
            hosts.configured().map(|domain| hosts.name_of(&domain).to_owned()).collect();
        all.extend(hosts.added().iter().map(|domain| domain.as_str().to_owned()));
        all.extend(hosts.api_host().map(str::to_owned));
        let mut seen = HashSet::new();
        all.retain(|host| {
            can_have_certificate(host)
                && files.for_name(host).is_none()
                && seen.insert(host.clone())
        });
        all
    }

    /// The hosts whose certificate must be ordered now, those without one first. With
    /// `retry_after`, hosts whose order failed wait no longer than this.
    pub(crate) fn due(&self, retry_after: Option<Duration>) -> Vec<String> {
        let (known, now) = (self.known(), self.clock.now());
        let is_due = |host: &String| {
            let waits = known.orders.get(host).is_some_and(|order| {
                let tried_at = Timestamp::from_ms(order.tried_at);
                let retry_at = retry_after.and_then(|pause| tried_at.checked_add(pause));
                order.next_at.min(retry_at.map_or(i64::MAX, Timestamp::as_ms)) > now.as_ms()
            });
            let renewal = known.certificates.get(host).map_or(i64::MIN, |certificate| {
                renew_at(host, (certificate.not_before(), certificate.not_after()))
            });
            !waits && renewal <= now.as_ms() / 1000
        };
        let mut due: Vec<String> = self.ordered_hosts().into_iter().filter(is_due).collect();
        due.sort_by_key(|host| known.certificates.contains_key(host));
        due
    }

    /// A client asked for a host that has no certificate. Called by handshakes, so it does little,
    /// and for other hosts than ours nothing.
    pub(crate) fn note_missing(&self, host: &str) {
        if self.hosts.domain_of(host).is_none() && !self.hosts.is_api_host(host) {
            return;
        }
        let (now, last) = (self.clock.steady().as_secs(), self.wanted_at.load(Ordering::Relaxed));
        if now.saturating_sub(last) >= WAKE_SECONDS {
            self.wanted_at.store(now, Ordering::Relaxed);
            self.wanted.notify_one();
        }
    }

    /// Notes since when hosts wait for their first certificate.
    pub(crate) fn note_waiting(&self) {
        let now = self.clock.steady();
        {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if now < waiting.check_at {
                return;
            }
            waiting.check_at = now + WAIT_CHECK_INTERVAL;
        }
        let mut hosts = self.ordered_hosts();
        hosts.retain(|host| self.certificate_state(host) == Some(CertificateState::Awaited));
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut waiting.since);
        let with_time = |host: String| {
            let since = before.get(&host).copied().unwrap_or(now);
            (host, since)
        };
        waiting.since = hosts.into_iter().map(with_time).collect();
    }

    /// Whether a host has waited for its first certificate for too long.
    fn waits_too_long(&self, host: &str) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let since = waiting.since.get(host);
        since.is_some_and(|since| self.clock.steady().saturating_sub(*since) > MAX_WAIT)
    }

    /// What an operator must know: the first host whose order failed. Everyone can read it, so it
    /// leaves out the authority's own words, which may contain addresses.
    pub(crate) fn notice(&self) -> Option<String> {
        let known = self.known();
        let (host, OrderRecord { problem, .. }) = known.orders.first_key_value()?;
        let problem = own_words(problem);
        Some(match known.certificates.contains_key(host) {
            true => format!("the certificate for {host} was not renewed: {problem}"),
            false => format!("no certificate for {host}: {problem}"),
        })
    }

    /// The state of all certificates, for `terse doctor`.
    pub fn findings(&self) -> Vec<Finding> {
        let now = self.clock.now();
        let finding = |verdict, found: String, advice: String| Finding {
            what: "certificates".to_owned(),
            verdict,
            found,
            advice,
        };
        let mut findings = Vec::new();
        let mut valid = 0;
        for host in self.ordered_hosts() {
            match self.certificate_state(&host) {
                Some(CertificateState::Valid(_)) => valid += 1,
                Some(CertificateState::Awaited) if self.waits_too_long(&host) => {
                    let found = format!("{host} has none, and no node ordered it for 10 minutes");
                    let advice = "all nodes with the role worker need tls.acme.enabled, and one \
                                  must run: its page System shows the job \"certificate orders\". \
                                  With many new domains, wait: terse orders 60 an hour";
                    findings.push(finding(Problem, found, advice.to_owned()));
                }
                Some(CertificateState::Awaited) => {
                    let advice = "wait a minute, and look again".to_owned();
                    findings.push(finding(Warning, format!("{host} has none yet"), advice));
                }
                Some(CertificateState::Failing { valid_until, problem, next_try }) => {
                    let left = valid_until.filter(|until| *until > now);
                    let (verdict, found) = match left {
                        None => (Problem, format!("{host} has none: browsers refuse it")),
                        Some(until) => (Warning, format!("that of {host} ends at {until}")),
                    };
                    let advice = format!("{problem} (terse tries again at {next_try})");
                    findings.push(finding(verdict, found, advice));
                }
                None => {}
            }
        }
        if findings.is_empty() && valid == 0 {
            let found = "terse orders none: no short domain is a public name without a certificate \
                         from a file";
            let advice = "set base_url to a public name, or turn tls.acme.enabled off";
            findings.push(finding(Warning, found.to_owned(), advice.to_owned()));
        }
        if valid > 0 {
            findings.push(finding(Good, format!("ordered and valid: {valid}"), String::new()));
        }
        findings
    }
}

impl CertificateStatus for AcmeCertificates {
    fn certificate_state(&self, host: &str) -> Option<CertificateState> {
        let from_file = || self.certificates.only_files().for_name(host).is_some();
        if !can_have_certificate(host) || from_file() {
            return None;
        }
        let known = self.known();
        let until = known
            .certificates
            .get(host)
            .map(|certificate| Timestamp::from_ms(certificate.not_after().saturating_mul(1000)));
        Some(match (known.orders.get(host), until) {
            (Some(order), valid_until) => CertificateState::Failing {
                valid_until,
                problem: order.problem.clone(),
                next_try: Timestamp::from_ms(order.next_at),
            },
            (None, Some(until)) if until > self.clock.now() => CertificateState::Valid(until),
            (None, _) => CertificateState::Awaited,
        })
    }
}

impl fmt::Debug for AcmeCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcmeCertificates")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

/// Whether an authority may issue a certificate for a host: a public name, and no address.
fn can_have_certificate(host: &str) -> bool {
    host.contains('.')
        && is_public_name(host)
        && host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_err()
}
