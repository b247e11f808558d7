//! Certificates in files, read again when the files change.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::certificate::{Certificate, CertificateError};

/// The files of all certificates, and what was read from them.
#[derive(Debug)]
pub struct CertificateFiles {
    pairs: Vec<CertificatePair>,
}

#[derive(Debug)]
struct CertificatePair {
    certificate: PathBuf,
    key: PathBuf,
    seen: PairStamps,
    current: Certificate,
}

/// What changes when a file is written or replaced.
type PairStamps = [Option<(SystemTime, u64, u64)>; 2];

impl CertificateFiles {
    /// Reads pairs of a certificate and its key.
    pub fn open(pairs: Vec<(PathBuf, PathBuf)>) -> Result<Self, CertificateError> {
        let open = |(certificate, key): (PathBuf, PathBuf)| {
            // Before reading: a change in between is noticed the next time.
            let seen = stamps(&certificate, &key);
            let current = Certificate::read(&certificate, &key)?;
            Ok(CertificatePair { certificate, key, seen, current })
        };
        Ok(Self { pairs: pairs.into_iter().map(open).collect::<Result<_, _>>()? })
    }

    /// The certificates that were read last.
    pub fn certificates(&self) -> Vec<Certificate> {
        self.pairs.iter().map(|pair| pair.current.clone()).collect()
    }

    /// Reads the files that have changed since they were last read, and returns for each pair of
    /// them the certificate's file and the result. A pair that cannot be used stays as it was, and
    /// is read again after its next change, or at the next call if its files cannot be read.
    pub fn reload(&mut self) -> Vec<(PathBuf, Result<(), CertificateError>)> {
        let mut changed = Vec::new();
        for pair in &mut self.pairs {
            let found = stamps(&pair.certificate, &pair.key);
            if found == pair.seen {
                continue;
            }
            let read = Certificate::read(&pair.certificate, &pair.key);
            // A file that cannot be read may become readable without a change.
            if !matches!(read, Err(CertificateError::Read { .. })) {
                pair.seen = found;
            }
            let read = read.map(|certificate| pair.current = certificate);
            changed.push((pair.certificate.clone(), read));
        }
        changed
    }
}

fn stamps(certificate: &Path, key: &Path) -> PairStamps {
    [certificate, key].map(|path| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.modified().ok()?, found.len(), found.ino()))
    })
}

/// Whether users other than the owner and the group may read a file.
pub fn readable_by_others(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o004 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Certificates;

    /// A certificate for names and its key, as PEM files.
    fn write(folder: &Path, file: &str, names: &[&str]) -> (PathBuf, PathBuf) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let pem = |kind: &str, der: &[u8]| {
            let base64: String = base64(der);
            format!("-----BEGIN {kind}-----\n{base64}\n-----END {kind}-----\n")
        };
        let paths = (folder.join(format!("{file}.pem")), folder.join(format!("{file}.key")));
        std::fs::write(&paths.0, pem("CERTIFICATE", made.cert.der())).expect("a file");
        std::fs::write(&paths.1, pem("PRIVATE KEY", &made.signing_key.serialize_der()))
            .expect("a file");
        paths
    }

    fn base64(bytes: &[u8]) -> String {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let quad = |chunk: &[u8]| {
            let bits = (0..3).fold(0_usize, |bits, at| {
                bits << 8 | usize::from(chunk.get(at).copied().unwrap_or(0))
            });
            (0..4).map(move |at| (at, bits)).map({
                let len = chunk.len();
                move |(at, bits)| match at <= len {
                    true => char::from(DIGITS[bits >> (18 - 6 * at) & 63]),
                    false => '=',
                }
            })
        };
        bytes.chunks(3).flat_map(quad).collect()
    }

    #[test]
    fn a_certificate_is_found_by_its_names_without_regard_to_case() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = write(folder.path(), "a", &["go.example", "*.go.example"]);
        let second = write(folder.path(), "b", &["s.example", "GO.example"]);
        let files = CertificateFiles::open(vec![first, second]).expect("certificates");
        let certificates = Certificates::default();
        certificates.set(&files.certificates());
        let found = |name| certificates.for_name(name).map(|found| found.names()[0].clone());
        for name in ["go.example", "Go.Example", "x.go.example"] {
            assert_eq!(found(name).as_deref(), Some("go.example"), "{name}");
        }
        assert_eq!(found("s.example").as_deref(), Some("s.example"));
        for name in ["a.b.go.example", "x.s.example", "example", ""] {
            assert_eq!(found(name), None, "{name}");
        }
    }

    #[test]
    fn files_that_cannot_be_used_say_why_and_never_show_the_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let (certificate, key) = write(folder.path(), "a", &["go.example"]);
        let (_, other_key) = write(folder.path(), "b", &["go.example"]);
        let missing = folder.path().join("missing.pem");
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "").expect("a file");
        let broken = folder.path().join("broken.pem");
        let text = std::fs::read_to_string(&key).expect("a key");
        std::fs::write(&broken, text.replace("END PRIVATE", "END WHAT")).expect("a file");
        for (certificate, key, message) in [
            (&certificate, &other_key, "does not belong to the certificate"),
            (&missing, &key, "missing.pem cannot be read"),
            (&certificate, &missing, "missing.pem cannot be read"),
            (&empty, &key, "empty.pem has no certificate"),
            (&certificate, &empty, "empty.pem has no private key"),
            (&certificate, &broken, "broken.pem has no private key"),
            (&key, &key, "has no certificate"),
            (&certificate, &certificate, "has no private key"),
        ] {
            let said = Certificate::read(certificate, key).expect_err(message).to_string();
            assert!(said.contains(message), "{said:?} instead of {message:?}");
            let secret = text.lines().nth(1).expect("the key");
            assert!(!said.contains(&secret[20..40]), "{said}");
        }
    }

    #[test]
    fn a_changed_pair_is_read_again_and_a_bad_one_stays_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let pair = write(folder.path(), "a", &["go.example"]);
        let mut files = CertificateFiles::open(vec![pair.clone()]).expect("a certificate");
        assert!(files.reload().is_empty(), "nothing has changed");

        std::fs::write(&pair.0, "-----BEGIN CERTIFICATE-----\n").expect("half a file");
        let changed = files.reload();
        assert!(matches!(&changed[..], [(_, Err(_))]), "{changed:?}");
        assert_eq!(files.certificates()[0].names(), ["go.example"]);
        assert!(files.reload().is_empty(), "one complaint for one change");

        write(folder.path(), "a", &["new.example"]);
        let changed = files.reload();
        assert!(matches!(&changed[..], [(_, Ok(()))]), "{changed:?}");
        assert_eq!(files.certificates()[0].names(), ["new.example"]);
    }
}
