//! Taking over links from another shortener.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;

use super::create::{ScreenedLink, alias_taken, reuse_key, stored_form};
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
use crate::validation::{ValidationError, ValidationErrorKind};

/// After so many rows an import lets other requests of its thread go on: parsing and screening them
/// takes about a millisecond.
const ROWS_WITHOUT_PAUSE: usize = 100;

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

    /// What a dry run says about a row, given its preview and the rows before it: an earlier row
    /// may create the same link, or give the code to another target.
    pub fn preview(
        &mut self,
        alone: ImportPreview,
        row: Option<ImportRowKey>,
    ) -> Result<ImportPreview, ValidationError> {
        match row.map_or(ImportRowConflict::None, |row| self.add(row)) {
            ImportRowConflict::None => Ok(alone),
            ImportRowConflict::Same => Ok(ImportPreview::Existing),
            ImportRowConflict::Taken => {
                let detail = "an earlier row has this code";
                Err(ValidationError::new(ValidationErrorKind::AliasTaken, "short_code", detail))
            }
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

    /// Imports links with their codes and creation times, each after those before it; the answers
    /// have the same order. Importing the same link again returns it as not new.
    ///
    /// The store gets all of them at once: many links of a file cost a fraction of as many creates.
    pub async fn import(
        &self,
        caller: Caller,
        rows: Vec<(CreateLink, Option<Timestamp>)>,
    ) -> Vec<Result<Created, LinkError>> {
        let now = self.clock.now();
        let mut drafts = Vec::with_capacity(rows.len());
        let mut inserts = Vec::with_capacity(rows.len());
        for (place, (command, created_at)) in rows.into_iter().enumerate() {
            if place % ROWS_WITHOUT_PAUSE == ROWS_WITHOUT_PAUSE - 1 {
                tokio::task::yield_now().await;
            }
            let created_at = created_at.map_or(now, |at| at.min(now));
            let prepared = async {
                let new = command.parse(&self.rules, CreateBounds::IMPORT, now)?;
                let draft = self.screen_new(caller, new, created_at).await?;
                let insert = self.insert_of(&draft, 0, None).await?;
                Ok::<_, LinkError>((draft, insert))
            };
            drafts.push(prepared.await.map(|(draft, insert)| {
                inserts.push(insert);
                draft
            }));
        }
        let inserts: Arc<[Insert]> = inserts.into();
        let outcomes = match inserts.is_empty() {
            true => Vec::new(),
            false => self.store.insert_many(Arc::clone(&inserts)).await,
        };
        let mut written = inserts.iter().zip(outcomes);
        let mut answers = Vec::with_capacity(drafts.len());
        for draft in drafts {
            answers.push(match draft {
                Err(error) => Err(error),
                Ok(draft) => match written.next() {
                    Some((insert, outcome)) => {
                        self.settle_import(caller, draft, insert.link.clone(), outcome).await
                    }
                    None => Err(StoreError::Unavailable("the store has no answer".into()).into()),
                },
            });
        }
        answers
    }

    async fn settle_import(
        &self,
        caller: Caller,
        draft: ScreenedLink,
        link: Link,
        outcome: Result<Inserted, StoreError>,
    ) -> Result<Created, LinkError> {
        if draft.new.alias.is_some() && matches!(outcome, Err(StoreError::CodeTaken)) {
            return match self.imported_before(caller, &link.key, &link.target).await? {
                Some(link) => Ok(Created { link, new: false, replayed: false }),
                None => Err(alias_taken().into()),
            };
        }
        match self.finish_insert(&draft, link, outcome).await {
            Some(done) => done,
            // The code was in use: the usual way tries others.
            None => self.insert(caller, draft.new, None, draft.created_at).await,
        }
    }
}
