//! Taking over links from another shortener.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use super::create::{alias_taken, reuse_key, stored_form};
use super::screening::targets_of_new;
use super::{Caller, Created, LinkError, Links};
use crate::code::Code;
use crate::create_link::{CreateBounds, CreateLink, NewLink};
use crate::insert::{Insert, Inserted};
use crate::link::{Link, LinkKey};
use crate::link_codec;
use crate::store::StoreError;
use crate::target::Target;
use crate::time::Timestamp;
use crate::validation::ValidationErrorKind;

/// What an import would do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ImportPreview {
    /// It would create the link.
    New,
    /// The link exists already.
    Existing,
}

/// What a row of an import occupies: its code or, without one, a link that a later row with the
/// same content would reuse. A row that always creates a new link occupies nothing.
#[derive(Clone, Copy, Debug)]
pub struct ImportRowKey {
    name: u64,
    target: u64,
}

impl ImportRowKey {
    /// A row with a code.
    pub fn of_code(domain: &str, code: &str, target: &str) -> Self {
        Self { name: hash((domain, code)), target: hash(target) }
    }

    /// A row whose code will be generated; `content` is what two rows for one link have in common.
    pub fn of_content(content: impl Hash) -> Self {
        Self { name: hash(content), target: 0 }
    }

    fn of(new: &NewLink, link: &Link) -> Option<Self> {
        if let Some(code) = &new.alias {
            let (domain, target) = (new.domain.as_str(), new.target.as_str());
            return Some(Self::of_code(domain, code.as_str(), target));
        }
        // Ignores clicks, and times that depend on when the row is read: they do not distinguish
        // links.
        let start = Timestamp::from_ms(0);
        let same = Link {
            created_at: start,
            updated_at: start,
            archived_at: link.archived_at.map(|_| start),
            expires_at: link.expires_at.filter(|_| new.lifetime.is_none()),
            imported_clicks: 0,
            ..link.clone()
        };
        new.reuse.then(|| Self::of_content((link_codec::encode(&same), new.lifetime)))
    }
}

fn hash(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// What the rows of an import occupy, so that a dry run foresees rows that repeat or contradict an
/// earlier one.
#[derive(Debug, Default)]
pub struct SeenImportRows(HashMap<u64, u64>);

/// How a row relates to the rows before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ImportRowConflict {
    /// Nothing.
    None,
    /// The same link: the row changes nothing.
    Same,
    /// A link to another target, which has the code.
    Taken,
}

impl SeenImportRows {
    /// Adds a row that would be imported, after those before it.
    pub fn add(&mut self, row: ImportRowKey) -> ImportRowConflict {
        match self.0.entry(row.name) {
            Entry::Vacant(free) => {
                free.insert(row.target);
                ImportRowConflict::None
            }
            Entry::Occupied(first) if *first.get() == row.target => ImportRowConflict::Same,
            Entry::Occupied(_) => ImportRowConflict::Taken,
        }
    }
}

impl Links {
    /// Says what [`import`](Self::import) would do, and writes nothing. The claim shows whether the
    /// row repeats or contradicts another row of its file. Does not foresee that another write
    /// takes the code in between.
    pub async fn preview_import(
        &self,
        caller: Caller,
        command: CreateLink,
    ) -> Result<(ImportPreview, Option<ImportRowKey>), LinkError> {
        let now = self.clock.now();
        let new = command.parse(&self.rules, CreateBounds::IMPORT, now)?;
        self.check_wanted(&new).await?;
        self.prepare(targets_of_new(&new).map(|asked| asked.target)).await;
        let (moderation, flags) = self.screen(caller, caller.owner(), targets_of_new(&new))?;
        self.check_image(caller, caller.owner(), new.preview.as_ref())?;
        // No code is taken from the generator. Whether this one is free does not matter.
        let code = new.alias.clone().or_else(|| Code::parse("0000000"));
        let code = code.expect("seven digits are a code");
        let link = stored_form(&new, code, caller.owner(), now, moderation, flags);
        let claim = ImportRowKey::of(&new, &link);
        let insert = Insert { reuse: reuse_key(&new, &link), ..Insert::new(link.clone(), None) };
        let preview = match self.store.preview_insert(&insert).await {
            Ok(Inserted::Created) => ImportPreview::New,
            Ok(_) => ImportPreview::Existing,
            Err(StoreError::CodeTaken) if new.alias.is_none() => ImportPreview::New,
            Err(StoreError::CodeTaken) => {
                let have = self.imported_before(caller, &link.key, &link.target).await?;
                have.map(|_| ImportPreview::Existing).ok_or_else(alias_taken)?
            }
            Err(error) => return Err(error.into()),
        };
        Ok((preview, claim))
    }

    /// The caller's link that an earlier import of the same row has made.
    async fn imported_before(
        &self,
        caller: Caller,
        key: &LinkKey,
        target: &Target,
    ) -> Result<Option<Link>, LinkError> {
        let same = |link: &Link| {
            link.target == *target && link.owner == caller.owner() && link.deleted_at.is_none()
        };
        Ok(self.store.get(key).await?.filter(same))
    }

    /// Imports a link with its code and its creation time. Importing the same link again returns it
    /// as not new.
    pub async fn import(
        &self,
        caller: Caller,
        command: CreateLink,
        created_at: Option<Timestamp>,
    ) -> Result<Created, LinkError> {
        let now = self.clock.now();
        let new = command.parse(&self.rules, CreateBounds::IMPORT, now)?;
        let target = new.target.clone();
        let key = new.alias.clone().map(|code| LinkKey { domain: new.domain.clone(), code });
        let created_at = created_at.map_or(now, |at| at.min(now));
        match (self.insert(caller, new, None, created_at).await, key) {
            (Err(LinkError::Refused(refusal)), Some(key))
                if refusal.kind == ValidationErrorKind::AliasTaken =>
            {
                match self.imported_before(caller, &key, &target).await? {
                    Some(link) => Ok(Created { link, new: false, replayed: false }),
                    None => Err(refusal.into()),
                }
            }
            (outcome, _) => outcome,
        }
    }
}
