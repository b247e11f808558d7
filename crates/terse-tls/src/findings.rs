//! What an operator should know about the certificates, for `terse doctor`.

use std::path::Path;
use std::time::SystemTime;

use terse_core::CheckResult::{self, Good, Problem, Warning};
use terse_core::Finding;

use crate::certificate::CertificateError;
use crate::certificates::Certificates;
use crate::files::{CertificateFiles, readable_by_others};
use crate::reload::EXPIRES_SOON_DAYS;

/// Checks the certificates that were read: who can read their keys, which hosts have none, and
/// when the first expires.
pub fn findings<'a>(
    files: Result<&CertificateFiles, &CertificateError>,
    keys: impl Iterator<Item = &'a Path>,
    hosts: impl Iterator<Item = &'a str>,
    now: SystemTime,
) -> Vec<Finding> {
    let what = "certificates";
    let found = match files {
        Ok(files) => Certificates::of(&files.certificates()),
        Err(error) => {
            let advice = "correct tls.certificate and tls.key; the server keeps the old ones until \
                          it stops";
            return vec![finding(what, Problem, error.to_string(), advice)];
        }
    };
    let mut findings = Vec::new();
    for key in keys.filter(|key| readable_by_others(key)) {
        let found = format!("every user of this machine can read {}", key.display());
        let advice = "chmod 600 the file, and make the user that runs terse its owner";
        findings.push(finding("tls.key", Warning, found, advice));
    }
    for host in hosts.filter(|host| found.for_name(host).is_none()) {
        let found = format!("none is for {host}: browsers warn its visitors");
        let advice = "add a certificate for it to tls.certificate and tls.key";
        findings.push(finding(what, Warning, found, advice));
    }
    let now = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs() as i64);
    let soonest = found.expiries().into_iter().min_by_key(|(_, ends)| *ends);
    let Some((name, ends)) = soonest else { return findings };
    let days = (ends - now).div_euclid(86_400);
    let (verdict, found) = match days {
        ..0 => (Problem, format!("the one for {name} has expired")),
        0..EXPIRES_SOON_DAYS => (Warning, format!("the one for {name} expires in {days} days")),
        _ => (Good, format!("the first to expire, for {name}, has {days} days left")),
    };
    findings.push(finding(what, verdict, found, "renew it; terse reads the new file by itself"));
    findings
}

fn finding(what: &str, verdict: CheckResult, found: String, advice: &str) -> Finding {
    // A good result needs no advice.
    let advice = if verdict == Good { "" } else { advice };
    Finding { what: what.to_owned(), verdict, found, advice: advice.to_owned() }
}
