//! Lists, and counts of tags and links.
//!
//! An index holds the sort keys of links, spread over shards. A list merges the shards in order,
//! reads the links from the home region with strong consistency, and leaves out those that do not
//! match.

use std::collections::{BTreeMap, HashMap, VecDeque};

use futures_util::future::try_join_all;
use terse_core::{Cursor, LinkPage, ListQuery, OwnerId, Sort, StoreError, TagCount, Tags};

use crate::client::Db;
use crate::failure::Failure;
use crate::item::{Attributes as _, corrupt, text};
use crate::keys::{self, BY_CREATED, BY_OWNER, CREATED_SHARDS, Index, Key, OWNER_SHARDS};
use crate::requests::{MAX_KEYS, Range};
use crate::row::{self, TAGS, owner_partition};

/// How many links one page looks at. A search that finds few stops here and continues with the next
/// page.
const MAX_EXAMINED: usize = 1_000;

/// The sort keys of one shard that are not listed yet, in order.
struct Shard {
    partition: String,
    sort_keys: VecDeque<String>,
    is_read: bool,
    last: Option<String>,
}

struct Merge<'a> {
    db: &'a Db,
    index: Index,
    backward: bool,
    per_shard: usize,
    shards: Vec<Shard>,
}

impl Merge<'_> {
    /// The next sort keys, at most `limit`.
    async fn next(&mut self, limit: usize) -> Result<Vec<String>, Failure> {
        let mut next = Vec::new();
        while next.len() < limit {
            self.refill().await?;
            // Every shard has its next sort key in memory, or has ended.
            let fronts = self.shards.iter_mut().filter(|shard| !shard.sort_keys.is_empty());
            let first = if self.backward {
                fronts.max_by(|a, b| a.sort_keys.front().cmp(&b.sort_keys.front()))
            } else {
                fronts.min_by(|a, b| a.sort_keys.front().cmp(&b.sort_keys.front()))
            };
            match first.and_then(|shard| shard.sort_keys.pop_front()) {
                Some(sort_key) => next.push(sort_key),
                None => break,
            }
        }
        Ok(next)
    }

    async fn refill(&mut self) -> Result<(), Failure> {
        let empty = |shard: &&mut Shard| shard.sort_keys.is_empty() && !shard.is_read;
        if !self.shards.iter_mut().any(|shard| empty(&shard)) {
            return Ok(());
        }
        let (db, index, backward, limit) = (self.db, self.index, self.backward, self.per_shard);
        let deadline = db.deadline();
        let reads = self.shards.iter_mut().filter(empty).map(|shard| async move {
            let mut range = Range::of(Some(index), &shard.partition, limit);
            range.backward = backward;
            let operator = if backward { "<" } else { ">" };
            range.bounds = shard.last.iter().map(|last| (operator, text(last))).collect();
            let (items, next) = db.query(deadline, &range).await?;
            for item in &items {
                let sort_key = item.text("place");
                let sort_key = sort_key.map_err(|error| Failure::Refused(error.to_string()))?;
                shard.sort_keys.push_back(sort_key.to_owned());
            }
            shard.last = shard.sort_keys.back().cloned().or(shard.last.take());
            shard.is_read = next.is_none() || items.is_empty();
            Ok::<_, Failure>(())
        });
        try_join_all(reads).await.map(drop)
    }

    fn is_at_end(&self) -> bool {
        self.shards.iter().all(|shard| shard.is_read && shard.sort_keys.is_empty())
    }
}

fn item_key(sort_key: &str) -> Result<Key, StoreError> {
    let (_, key) = sort_key.split_once('#').ok_or_else(|| corrupt("a sort key has no link"))?;
    Ok(keys::link(&keys::link_key(&format!("L#{key}"))?))
}

/// One page of a list.
pub(crate) async fn page(db: &Db, query: &ListQuery) -> Result<LinkPage, StoreError> {
    let after = match &query.after {
        None => None,
        Some(Cursor(bytes)) => {
            let sort_key =
                String::from_utf8(bytes.clone()).ok().filter(|text| keys::is_sort_key(text));
            Some(sort_key.ok_or_else(|| corrupt("not a position in this list"))?)
        }
    };
    let (index, partitions): (_, Vec<String>) = match query.owner {
        Some(owner) => {
            (BY_OWNER, (0..OWNER_SHARDS).map(|shard| owner_partition(owner, shard)).collect())
        }
        None => (BY_CREATED, (0..CREATED_SHARDS).map(|shard| shard.to_string()).collect()),
    };
    let limit = query.limit.max(1);
    // Somewhat more than the share of each shard, so that most pages need one round.
    let per_shard = (2 * limit / partitions.len() + 4).min(MAX_KEYS);
    let shard = |partition| {
        let last = after.clone();
        Shard { partition, sort_keys: VecDeque::new(), is_read: false, last }
    };
    let shards = partitions.into_iter().map(shard).collect();
    let backward = query.sort == Sort::Newest;
    let mut merge = Merge { db, index, backward, per_shard, shards };
    let (mut links, mut examined, mut last) = (Vec::new(), 0, after);
    'pages: while examined < MAX_EXAMINED {
        let sort_keys =
            merge.next((limit - links.len()).min(MAX_KEYS)).await.map_err(StoreError::from)?;
        if sort_keys.is_empty() {
            break;
        }
        let wanted =
            sort_keys.iter().map(|sort_key| item_key(sort_key)).collect::<Result<Vec<_>, _>>()?;
        let items = db.get_all(db.deadline(), &wanted, true).await.map_err(StoreError::from)?;
        let mut found = HashMap::new();
        for item in &items {
            found.insert(Key::of(item)?, row::read(item)?);
        }
        examined += sort_keys.len();
        for (sort_key, key) in sort_keys.into_iter().zip(wanted) {
            // A link of the same name that was created since has another sort key.
            let stored = found.remove(&key).flatten();
            let stored = stored.filter(|stored| {
                keys::sort_key(&stored.link.key, stored.link.created_at) == sort_key
            });
            last = Some(sort_key);
            links.extend(stored.map(|stored| stored.link).filter(|link| query.matches(link)));
            if links.len() >= limit {
                break 'pages;
            }
        }
    }
    let next = last.filter(|_| !merge.is_at_end());
    Ok(LinkPage { links, next: next.map(|sort_key| Cursor(sort_key.into_bytes())) })
}

/// The tags of an owner's links.
pub(crate) async fn tags(
    db: &Db,
    owner: OwnerId,
    limit: usize,
) -> Result<Vec<TagCount>, StoreError> {
    if owner == OwnerId::ANONYMOUS {
        return Ok(Vec::new());
    }
    let shards = (0..OWNER_SHARDS).map(|shard| async move {
        let mut range = Range::of(Some(BY_OWNER), owner_partition(owner, shard), 10_000);
        range.only = Some(TAGS);
        let mut counts = BTreeMap::<String, u64>::new();
        loop {
            let (items, next) = db.query(db.deadline(), &range).await?;
            for joined in items.iter().filter_map(|item| item.text(TAGS).ok()) {
                for tag in Tags::from_stored(joined).iter() {
                    if counts.len() < TagCount::MAX_TAGS || counts.contains_key(tag) {
                        *counts.entry(tag.to_owned()).or_default() += 1;
                    }
                }
            }
            range.after = next;
            if range.after.is_none() {
                return Ok::<_, Failure>(counts);
            }
        }
    });
    let mut counts = BTreeMap::<String, u64>::new();
    for shard in try_join_all(shards).await.map_err(StoreError::from)? {
        for (tag, links) in shard {
            if counts.len() < TagCount::MAX_TAGS || counts.contains_key(&tag) {
                *counts.entry(tag).or_default() += links;
            }
        }
    }
    Ok(TagCount::ranked(counts, limit))
}

/// About how many links there are.
pub(crate) async fn count_links(db: &Db) -> Result<u64, StoreError> {
    let shards = (0..CREATED_SHARDS).map(|shard| async move {
        db.count(&Range::of(Some(BY_CREATED), shard.to_string(), 1000)).await
    });
    Ok(try_join_all(shards).await.map_err(StoreError::from)?.iter().sum())
}
