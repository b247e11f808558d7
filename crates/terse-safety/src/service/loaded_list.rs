//! One blocklist or warn list: the version in force, and the checks on a new version.

use std::io::Read as _;
use std::path::Path;
use std::time::SystemTime;
use std::{fs, io};

use sha2::{Digest as _, Sha256};
use terse_core::{Hosts, RequestLimits, Validators};

use super::cached_copy::CachedCopy;
use super::source::{ListLocation, ListSource};
use crate::{ListEntry, ParsedList, ProtectedHosts, parse};

/// A list of at least this length that loses nine of ten entries counts as broken. The operator
/// edits shorter ones, so they may shrink.
const MIN_SHRINK_CHECK: usize = 100;

/// A file's modification time and size.
type FileStamp = (SystemTime, u64);

/// What a match on a list does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ListEffect {
    /// The target is refused, and its links are blocked.
    Block,
    /// A warning page comes before the link.
    Warn,
}

/// One blocklist or warn list.
pub(crate) struct LoadedList {
    source: ListSource,
    effect: ListEffect,
    parsed: Option<ParsedList>,
    /// The digest of the bytes that were parsed.
    digest: [u8; 32],
    own_hosts: Hosts,
    kept: Option<CachedCopy>,
    /// The file's metadata when it was last read, and at the last poll.
    read: Option<FileStamp>,
    seen: Option<FileStamp>,
}

/// The result of offering a new version.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum ListUpdate {
    /// Accepted; in force once compiled.
    Taken {
        /// The number of entries.
        entries: usize,
        /// The number of entries that could not be parsed or would block too much.
        skipped: usize,
    },
    /// Identical to the version in force.
    Same,
    /// Refused because it looks broken.
    Refused(&'static str),
}

impl LoadedList {
    pub(crate) fn new(
        source: ListSource,
        effect: ListEffect,
        own_hosts: Hosts,
        folder: &Path,
    ) -> Self {
        let kept = match &source.place {
            ListLocation::File(_) => None,
            ListLocation::Url(url) => Some(CachedCopy::new(folder, url.as_str())),
        };
        Self {
            source,
            effect,
            parsed: None,
            digest: [0; 32],
            own_hosts,
            kept,
            read: None,
            seen: None,
        }
    }

    pub(crate) fn effect(&self) -> ListEffect {
        self.effect
    }

    pub(crate) fn name(&self) -> &str {
        &self.source.name
    }

    pub(crate) fn parsed(&self) -> Option<&ParsedList> {
        self.parsed.as_ref()
    }

    pub(crate) fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// Reads the list's file.
    pub(crate) fn read_file(&mut self, path: &Path) -> io::Result<ListUpdate> {
        let stamp = file_stamp(path)?;
        (self.read, self.seen) = (Some(stamp), Some(stamp));
        let mut bytes = Vec::new();
        let most = RequestLimits::FEED.max_body as u64;
        fs::File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "a list has at most 64 MiB"));
        }
        Ok(self.offer(&bytes))
    }

    /// Reads the file if it has changed since it was read but not since the last poll. `None` if
    /// there is nothing to do.
    pub(crate) fn poll(&mut self) -> Option<io::Result<ListUpdate>> {
        let ListLocation::File(path) = &self.source.place else { return None };
        let path = path.clone();
        let now = match file_stamp(&path) {
            Ok(now) => now,
            // Report the error once: the next poll finds the same.
            Err(error) => return self.seen.take().map(|_| Err(error)),
        };
        let settled = self.seen.replace(now) == Some(now);
        (settled && self.read != Some(now)).then(|| self.read_file(&path))
    }

    /// Offers a new version of the list.
    pub(crate) fn offer(&mut self, bytes: &[u8]) -> ListUpdate {
        let digest: [u8; 32] = Sha256::digest(bytes).into();
        if self.parsed.is_some() && digest == self.digest {
            return ListUpdate::Same;
        }
        let from_elsewhere = self.kept.is_some();
        let ours = self.own_hosts.own_names();
        let own_hosts = match self.effect {
            // The check below refuses a list that blocks our own hosts; single short links of ours
            // are ignored.
            ListEffect::Block => Vec::new(),
            // A list of newly registered domains may contain one of ours: skip that entry.
            ListEffect::Warn => ours.clone(),
        };
        let guard = ProtectedHosts { own_hosts, allow_platforms: !from_elsewhere };
        let new = parse(&self.source.name, bytes, &guard);
        if new.entries().any(|entry| blocks(entry, &ours)) {
            return ListUpdate::Refused("it names our own hosts");
        }
        if from_elsewhere && new.is_empty() {
            return ListUpdate::Refused("nothing in it could be read");
        }
        let before = self.parsed.as_ref().map_or(0, ParsedList::len);
        if before >= MIN_SHRINK_CHECK && new.len() < before / 10 {
            return ListUpdate::Refused("nine of ten entries are gone");
        }
        let taken = ListUpdate::Taken { entries: new.len(), skipped: new.skipped() };
        (self.parsed, self.digest) = (Some(new), digest);
        taken
    }

    /// Loads the cached copy.
    pub(crate) fn read_kept(&mut self) {
        let read = self.kept.as_mut().map(CachedCopy::read);
        let why = match read {
            Some(Ok(Some(bytes))) => match self.offer(&bytes) {
                ListUpdate::Refused(why) => why.to_owned(),
                ListUpdate::Taken { .. } | ListUpdate::Same => return,
            },
            Some(Err(error)) => error.to_string(),
            Some(Ok(None)) | None => "it was never fetched".to_owned(),
        };
        if let Some(kept) = &mut self.kept {
            kept.validators = Validators::default();
        }
        tracing::warn!(
            list = self.name(),
            why,
            "there is no copy of a list; it is missing until it can be fetched"
        );
    }

    /// Writes a version to the cached copy, for the next start.
    pub(crate) fn keep(&mut self, bytes: &[u8], validators: &Validators) {
        let Some(kept) = &mut self.kept else { return };
        if let Err(error) = kept.write(bytes, validators) {
            let name = &self.source.name;
            tracing::warn!(list = name, %error, "a list could not be saved; after a restart \
                it has to be fetched again");
        }
    }

    /// The HTTP validators of the version in force.
    pub(crate) fn validators(&self) -> Validators {
        self.kept.as_ref().map(|kept| kept.validators.clone()).unwrap_or_default()
    }
}

fn file_stamp(path: &Path) -> io::Result<FileStamp> {
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    }
    Ok((found.modified()?, found.len()))
}

/// Whether an entry blocks one of these hosts.
fn blocks(entry: ListEntry<'_>, ours: &[String]) -> bool {
    let ListEntry::Host(host) = entry else { return false };
    ours.iter().any(|own| {
        own.strip_suffix(host).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(place: &str) -> LoadedList {
        let hosts = Hosts::new(&"https://go.example/".parse().unwrap(), &[], vec![]).unwrap();
        let source = ListSource::parse(place).unwrap();
        LoadedList::new(source, ListEffect::Block, hosts, Path::new("nowhere"))
    }

    fn hosts(count: usize) -> Vec<u8> {
        (0..count).map(|n| format!("bad-{n}.example.net\n")).collect::<String>().into_bytes()
    }

    #[test]
    fn a_version_that_looks_broken_is_refused_and_the_last_one_stays() {
        let mut feed = held("https://feeds.example/x");
        assert_eq!(
            feed.offer(b"<html>Service unavailable</html>"),
            ListUpdate::Refused("nothing in it could be read")
        );
        assert_eq!(feed.offer(&hosts(200)), ListUpdate::Taken { entries: 200, skipped: 0 });
        assert_eq!(feed.offer(&hosts(200)), ListUpdate::Same);
        for broken in
            [&b""[..], &hosts(19), b"go.example\n", &[hosts(200), b"go.example".to_vec()].concat()]
        {
            assert!(matches!(feed.offer(broken), ListUpdate::Refused(_)));
            assert_eq!(feed.parsed().map(ParsedList::len), Some(200));
        }
        assert_eq!(feed.offer(&hosts(20)), ListUpdate::Taken { entries: 20, skipped: 0 });
        // A single short link of ours on a list neither refuses the list nor blocks us.
        assert!(matches!(
            feed.offer(&[&hosts(20)[..], b"https://go.example/abc\n"].concat()),
            ListUpdate::Taken { .. }
        ));
    }

    #[test]
    fn our_own_hosts_on_a_warn_list_are_skipped() {
        let base = "https://go.mine.example/".parse().unwrap();
        let hosts = Hosts::new(&base, &[], vec![]).unwrap();
        for place in ["new.txt", "https://feeds.example/new"] {
            let source = ListSource::parse(place).unwrap();
            let mut list =
                LoadedList::new(source, ListEffect::Warn, hosts.clone(), Path::new("nowhere"));
            let offered = list.offer(b"mine.example\ngo.mine.example\nother.example.net\n");
            assert_eq!(offered, ListUpdate::Taken { entries: 1, skipped: 2 }, "{place}");
        }
    }

    #[test]
    fn a_short_local_file_may_become_empty() {
        let mut file = held("bad.txt");
        assert_eq!(file.offer(b"evil.example.net"), ListUpdate::Taken { entries: 1, skipped: 0 });
        assert_eq!(file.offer(b"# nothing left"), ListUpdate::Taken { entries: 0, skipped: 0 });
    }

    #[test]
    fn a_file_is_read_when_it_has_settled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bad.txt");
        fs::write(&path, "a.example.net").unwrap();
        let mut file = held(path.to_str().unwrap());
        file.read_file(&path).unwrap();
        assert!(file.poll().is_none());
        fs::write(&path, "a.example.net\nb.example.net").unwrap();
        assert!(file.poll().is_none(), "it may still be written");
        assert_eq!(file.poll().unwrap().unwrap(), ListUpdate::Taken { entries: 2, skipped: 0 });
        assert!(file.poll().is_none());
        fs::remove_file(&path).unwrap();
        assert!(file.poll().unwrap().is_err());
        assert!(file.poll().is_none(), "told once");
        assert_eq!(file.parsed().map(ParsedList::len), Some(2));
        fs::write(&path, "c.example.net").unwrap();
        assert!(file.poll().is_none());
        assert_eq!(file.poll().unwrap().unwrap(), ListUpdate::Taken { entries: 1, skipped: 0 });
    }
}
