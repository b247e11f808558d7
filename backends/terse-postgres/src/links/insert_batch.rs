//! One transaction that writes a batch of new links.
//!
//! The transaction first takes advisory locks on the names, the request ids and the targets to
//! reuse, in the same order on every node. It then reads what the conditions of each link need,
//! decides, and writes the links that may be written. A generated code needs no lock: its key is
//! unique, and a conflict with another node fails the transaction, which is tried again and then
//! sees the other link.

use std::collections::{HashMap, HashSet};

use terse_core::{
    Code, EventId, IdempotencyKey, Insert, InsertCondition, Inserted, Link, LinkKey, Numbering,
    OutboxEvent, OwnerId, ReuseKey, Revision, StoreError, Timestamp, link_codec,
};
use tokio_postgres::Row;
use xxhash_rust::xxh3::xxh3_64;

use super::inserts::Waiting;
use super::row::{self, COLUMNS, NEW_COLUMNS, NewRows, reuse_hash, unnested, written_columns};
use super::{PostgresLinks, changes};
use crate::exclusive::Transaction;
use crate::failure::{Failure, corrupt};
use crate::pool::{BEGIN, Pool};
use crate::sql::{SqlTimestamp, params};

/// How many links of an owner to the same target are compared with a new one, the newest first.
const MAX_CANDIDATES: i64 = 256;

/// What only one link of a batch can have, as keys of advisory locks.
pub(crate) struct Claims {
    /// Locked, because two nodes may want the same.
    locks: Vec<i64>,
    /// Not locked: the primary key of the table decides between two nodes.
    key: i64,
}

impl Claims {
    pub(crate) fn of(insert: &Insert) -> Self {
        let Insert { link, alias, reuse, request, .. } = insert;
        let mut locks = Vec::new();
        if let Some(alias) = alias {
            locks.push(claim("alias", &[link.key.domain.as_str(), &alias.folded]));
        }
        if let Some(reuse) = reuse.as_ref().filter(|reuse| reuse.alias().is_none()) {
            locks.push(reuse_hash(&reuse.wanted));
        }
        if let Some(request) = request {
            locks.push(xxh3_64(&request.id).cast_signed());
        }
        let key = claim("key", &[link.key.domain.as_str(), link.key.code.as_str()]);
        Self { locks, key }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = i64> + '_ {
        self.locks.iter().copied().chain([self.key])
    }
}

fn claim(kind: &str, names: &[&str]) -> i64 {
    let mut bytes = kind.as_bytes().to_vec();
    for name in names {
        bytes.push(0);
        bytes.extend(name.as_bytes());
    }
    xxh3_64(&bytes).cast_signed()
}

/// What the database says about a batch before it is written.
struct Found {
    requests: HashMap<Vec<u8>, Answered>,
    reusable: HashMap<i64, Vec<Link>>,
    links: HashMap<LinkKey, Result<Link, StoreError>>,
    /// Owners of aliases, by domain and folded form.
    aliases: HashMap<(String, String), Vec<OwnerId>>,
    /// Quarantined aliases and their former owners, by domain and folded form.
    quarantined: HashMap<(String, String), Vec<(String, OwnerId)>>,
    leases: HashMap<u8, u64>,
}

/// The stored answer to a request.
struct Answered {
    fingerprint: Vec<u8>,
    created: bool,
    /// An error if the link cannot be read.
    link: Result<Option<Link>, String>,
}

/// The decision about one link.
enum Decision {
    /// It is written, and this is the answer.
    Write,
    /// Only the request is written: an existing link answers it.
    WriteRequest(Box<Link>),
    /// Nothing is written.
    Answer(Result<Inserted, StoreError>),
}

impl Decision {
    fn answer(self) -> Result<Inserted, StoreError> {
        match self {
            Self::Write => Ok(Inserted::Created),
            Self::WriteRequest(link) => Ok(Inserted::Existing(link)),
            Self::Answer(answer) => answer,
        }
    }
}

/// Writes a batch, and returns the answer to each caller.
pub(crate) async fn write(
    pool: &Pool,
    numbering: &Numbering,
    batch: &[Waiting],
) -> Result<Vec<Result<Inserted, StoreError>>, Failure> {
    if batch.is_empty() {
        return Ok(Vec::new());
    }
    let mut transaction = pool.take_connection().await?;
    let found = read(&transaction, batch).await?;
    let decisions: Vec<Decision> =
        batch.iter().map(|waiting| decide(waiting, &found, numbering)).collect();
    if decisions.iter().all(|decision| matches!(decision, Decision::Answer(_))) {
        // An answer that says that a link is stored waits for the standby, as its commit does.
        match decisions.iter().any(|decision| matches!(decision, Decision::Answer(Ok(_)))) {
            true => transaction.confirm().await?,
            false => transaction.rollback().await?,
        }
    } else {
        write_decided(&transaction, batch, &decisions).await?;
        transaction.give_back();
    }
    Ok(decisions.into_iter().map(Decision::answer).collect())
}

/// The answers that [`write`] would give, without writing.
pub(crate) async fn preview(
    pool: &Pool,
    numbering: &Numbering,
    batch: &[Waiting],
) -> Result<Vec<Result<Inserted, StoreError>>, Failure> {
    let transaction = pool.take_connection().await?;
    let found = read(&transaction, batch).await?;
    transaction.rollback().await?;
    Ok(batch.iter().map(|waiting| decide(waiting, &found, numbering).answer()).collect())
}

/// Begins the transaction, locks what the batch claims, and reads, in one round trip.
async fn read(transaction: &Transaction<'_>, batch: &[Waiting]) -> Result<Found, Failure> {
    let mut locks: Vec<i64> =
        batch.iter().flat_map(|waiting| waiting.claims.locks.iter().copied()).collect();
    locks.sort_unstable();
    locks.dedup();
    let inserts = || batch.iter().map(|waiting| &waiting.insert);
    let requests: Vec<&[u8]> =
        inserts().filter_map(|insert| Some(&insert.request.as_ref()?.id[..])).collect();
    let reuse: Vec<i64> = inserts()
        .filter_map(|insert| insert.reuse.as_ref().filter(|reuse| reuse.alias().is_none()))
        .map(|reuse| reuse_hash(&reuse.wanted))
        .collect();
    let (domains, codes): (Vec<&str>, Vec<&str>) = inserts()
        .map(|insert| (insert.link.key.domain.as_str(), insert.link.key.code.as_str()))
        .unzip();
    let folded: Vec<String> = inserts().map(|insert| insert.link.key.code.folded()).collect();

    let requests_sql = requests_sql();
    let reuse_sql = format!(
        "SELECT {COLUMNS} FROM unnest($1) AS h (reuse), LATERAL (SELECT * FROM links \
         WHERE links.reuse = h.reuse ORDER BY created_at DESC LIMIT {MAX_CANDIDATES}) AS l"
    );
    let links_sql = format!(
        "SELECT {COLUMNS} FROM unnest($1, $2) AS k (domain, code) \
         JOIN links l ON l.domain = k.domain COLLATE \"C\" AND l.code = k.code COLLATE \"C\""
    );
    // A link is purged and its alias quarantined in one transaction: a batch that reads the links
    // first sees at least one of them.
    let quarantine_sql = "SELECT q.domain, lower(q.code), q.code, q.owner \
         FROM unnest($1, $2) AS k (domain, folded) JOIN link_quarantine q \
         ON q.domain = k.domain COLLATE \"C\" AND lower(q.code) = k.folded COLLATE \"C\"";
    let aliases_sql = "SELECT DISTINCT l.domain, lower(l.code), l.owner \
         FROM unnest($1, $2) AS k (domain, folded) JOIN links l \
         ON l.domain = k.domain COLLATE \"C\" AND lower(l.code) = k.folded COLLATE \"C\" \
         WHERE NOT l.generated";
    let lock_sql = "SELECT pg_advisory_xact_lock(k) FROM unnest($1) AS k";
    let lock_params = params![locks];
    let request_params = params![requests];
    let reuse_params = params![reuse];
    let key_params = params![domains, codes];
    let folded_params = params![domains, folded];
    let (begun, locked, answered, reusable, links, aliases, quarantined, leases) = tokio::join!(
        biased;
        transaction.begin(BEGIN),
        transaction.execute(lock_sql, lock_params),
        transaction.query(&requests_sql, request_params),
        transaction.query(&reuse_sql, reuse_params),
        transaction.query(&links_sql, key_params),
        transaction.query(aliases_sql, folded_params),
        transaction.query(quarantine_sql, folded_params),
        transaction.query("SELECT length, next FROM link_leases", &[]),
    );
    begun?;
    locked?;
    let mut found = Found {
        requests: HashMap::new(),
        reusable: HashMap::new(),
        links: HashMap::new(),
        aliases: HashMap::new(),
        quarantined: HashMap::new(),
        leases: HashMap::new(),
    };
    for row in &answered? {
        found.requests.insert(row.get(0), Answered::read(row));
    }
    for row in &reusable? {
        match row::read(row, 0) {
            Ok(link) => found.reusable.entry(reuse_hash(&link)).or_default().push(link),
            // A damaged row is not reused; the caller creates a new link.
            Err(error) => tracing::error!(%error, "skipped a damaged link"),
        }
    }
    for row in &links? {
        let (key, link) = row::read_keyed(row)?;
        found.links.insert(key, link);
    }
    for row in &aliases? {
        let owner = OwnerId(row.get::<_, i64>(2).cast_unsigned());
        found.aliases.entry((row.get(0), row.get(1))).or_default().push(owner);
    }
    for row in &quarantined? {
        let owner = OwnerId(row.get::<_, i64>(3).cast_unsigned());
        let held = (row.get(2), owner);
        found.quarantined.entry((row.get(0), row.get(1))).or_default().push(held);
    }
    for row in &leases? {
        let length = u8::try_from(row.get::<_, i16>(0))
            .map_err(|_| corrupt("a lease of an unknown length"))?;
        found.leases.insert(length, row.get::<_, i64>(1).cast_unsigned());
    }
    Ok(found)
}

/// Checks in the order of the contract: the request, the link to reuse, the key, the conditions.
fn decide(waiting: &Waiting, found: &Found, numbering: &Numbering) -> Decision {
    let Insert { link, absent, reuse, request, .. } = &waiting.insert;
    if let Some(request) = request
        && let Some(answered) = found.requests.get(&request.id[..])
    {
        return Decision::Answer(replay(waiting, request, answered));
    }
    if waiting.maybe_done
        && let Some(Ok(stored)) = found.links.get(&link.key)
        && *stored == (Link { spent_clicks: stored.spent_clicks, ..link.clone() })
    {
        return Decision::Answer(Ok(Inserted::Created));
    }
    if let Some(reuse) = reuse
        && let Some(existing) = existing(reuse, found)
    {
        let existing = Box::new(existing.clone());
        return match request {
            Some(_) => Decision::WriteRequest(existing),
            // There is no request to write.
            None => Decision::Answer(Ok(Inserted::Existing(existing))),
        };
    }
    let exists = |what: &InsertCondition| is_there(link, what, found, numbering);
    if found.links.contains_key(&link.key) || absent.iter().any(exists) {
        return Decision::Answer(Err(StoreError::CodeTaken));
    }
    Decision::Write
}

/// The answer to a request that was answered before.
fn replay(
    waiting: &Waiting,
    request: &IdempotencyKey,
    answered: &Answered,
) -> Result<Inserted, StoreError> {
    match answered.answer(request)? {
        // This very attempt, whose first answer was lost.
        Inserted::Replayed { link: Some(link), created: true }
            if waiting.maybe_done && link.key == waiting.insert.link.key =>
        {
            Ok(Inserted::Created)
        }
        answer => Ok(answer),
    }
}

/// Which of the requests `$1` were answered, and with what.
fn requests_sql() -> String {
    format!(
        "SELECT r.id, r.fingerprint, r.created, l.code IS NOT NULL, {COLUMNS} \
         FROM link_requests r LEFT JOIN links l ON l.domain = r.domain AND l.code = r.code \
         AND l.created_at = r.link_created_at WHERE r.id = ANY($1)"
    )
}

impl Answered {
    /// Reads a row of [`requests_sql`].
    fn read(row: &Row) -> Self {
        let link = match row.get(3) {
            true => row::read(row, 4).map(Some).map_err(|error| super::describe(&error)),
            false => Ok(None),
        };
        Self { fingerprint: row.get(1), created: row.get(2), link }
    }

    /// The answer to the request with this id.
    fn answer(&self, request: &IdempotencyKey) -> Result<Inserted, StoreError> {
        if self.fingerprint != request.fingerprint {
            return Ok(Inserted::RequestMismatch);
        }
        let link = self.link.as_ref().map_err(corrupt)?.clone().map(Box::new);
        Ok(Inserted::Replayed { link, created: self.created })
    }
}

impl PostgresLinks {
    /// The answer to a request that was answered before.
    pub(super) async fn find_answer(
        &self,
        request: &IdempotencyKey,
    ) -> Result<Option<Inserted>, StoreError> {
        let ids = vec![&request.id[..]];
        let rows = self.pool.lookup(&requests_sql(), params![ids]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let answer = Answered::read(row).answer(request)?;
        self.pool.confirm().await?;
        Ok(Some(answer))
    }
}

/// A link to return instead of a new one.
fn existing<'a>(reuse: &ReuseKey, found: &'a Found) -> Option<&'a Link> {
    match reuse.alias() {
        // A damaged row is not reused; its alias is taken.
        Some(key) => found.links.get(key)?.as_ref().ok().filter(|have| reuse.matches(have)),
        None => {
            let candidates = found.reusable.get(&reuse_hash(&reuse.wanted))?;
            candidates.iter().find(|have| reuse.matches(have))
        }
    }
}

/// Whether something exists that the insert requires to be absent.
fn is_there(link: &Link, what: &InsertCondition, found: &Found, numbering: &Numbering) -> bool {
    let at = |folded: &str| (link.key.domain.as_str().to_owned(), folded.to_owned());
    let quarantined = |folded: &str| found.quarantined.get(&at(folded)).into_iter().flatten();
    match what {
        InsertCondition::Alias { folded, except } => found
            .aliases
            .get(&at(folded))
            .is_some_and(|owners| owners.iter().any(|owner| Some(*owner) != *except)),
        InsertCondition::QuarantinedAlias { folded, except } => {
            quarantined(folded).any(|(_, owner)| Some(*owner) != *except)
        }
        InsertCondition::QuarantinedCode(code) => {
            quarantined(&code.folded()).any(|(held, _)| held == code.as_str())
        }
        InsertCondition::Issued(code) => is_leased(code, found, numbering),
    }
}

fn is_leased(code: &Code, found: &Found, numbering: &Numbering) -> bool {
    numbering
        .number(code.as_str().as_bytes())
        .is_some_and(|(length, n)| found.leases.get(&length).is_some_and(|next| n < *next))
}

/// Writes what was decided and commits, in one round trip.
async fn write_decided(
    transaction: &Transaction<'_>,
    batch: &[Waiting],
    decisions: &[Decision],
) -> Result<(), Failure> {
    let decided = || batch.iter().map(|waiting| &waiting.insert).zip(decisions);
    let new: Vec<&Insert> = decided()
        .filter(|(_, decision)| matches!(decision, Decision::Write))
        .map(|(insert, _)| insert)
        .collect();
    let rows = NewRows::of(new.iter().map(|insert| &insert.link));
    let mut requests = Requests::default();
    for (insert, decision) in decided() {
        match (&insert.request, decision) {
            (Some(request), Decision::Write) => {
                requests.push(request, &insert.link, true, insert.link.created_at);
            }
            (Some(request), Decision::WriteRequest(link)) => {
                requests.push(request, link, false, insert.link.created_at);
            }
            _ => {}
        }
    }
    let aliases: Vec<&Link> =
        new.iter().filter(|insert| insert.alias.is_some()).map(|insert| &insert.link).collect();
    let (domains, codes): (Vec<&str>, Vec<&str>) =
        aliases.iter().map(|link| (link.key.domain.as_str(), link.key.code.as_str())).unzip();
    let changed: Vec<(&LinkKey, Revision)> =
        aliases.iter().map(|link| (&link.key, link.revision)).collect();
    let events: Vec<(OutboxEvent, &Link)> = new
        .iter()
        .flat_map(|insert| insert.events.iter().map(|event| (*event, &insert.link)))
        .collect();
    let events = Events::new(&events)?;
    let insert_sql = format!(
        "INSERT INTO links ({NEW_COLUMNS}) SELECT {} FROM {}",
        written_columns(),
        unnested()
    );
    let insert_params = rows.params();
    let take_back_sql = "DELETE FROM link_quarantine q USING unnest($1, $2) AS k (domain, code) \
         WHERE q.domain = k.domain COLLATE \"C\" AND q.code = k.code COLLATE \"C\"";
    let (written, taken_back, recorded, requested, posted, committed) = tokio::join!(
        biased;
        async {
            if new.is_empty() { Ok(0) } else { transaction.execute(&insert_sql, &insert_params).await }
        },
        async {
            if aliases.is_empty() {
                Ok(0)
            } else {
                transaction.execute(take_back_sql, params![domains, codes]).await
            }
        },
        changes::record(transaction, &changed),
        requests.write(transaction),
        events.write(transaction),
        transaction.send_commit(),
    );
    // All were sent together: if the connection was lost, the commit may have happened.
    if let Err(lost @ Failure::Unknown(_)) = committed {
        return Err(lost);
    }
    // The first failure is the cause of the others.
    written?;
    taken_back?;
    recorded?;
    requested?;
    posted?;
    committed
}

/// Which links answered which requests, as columns.
#[derive(Default)]
struct Requests<'a> {
    ids: Vec<&'a [u8]>,
    fingerprints: Vec<&'a [u8]>,
    domains: Vec<&'a str>,
    codes: Vec<&'a str>,
    link_times: Vec<SqlTimestamp>,
    created: Vec<bool>,
    times: Vec<SqlTimestamp>,
    seen: HashSet<&'a [u8]>,
}

impl<'a> Requests<'a> {
    fn push(&mut self, request: &'a IdempotencyKey, link: &'a Link, created: bool, at: Timestamp) {
        if !self.seen.insert(&request.id) {
            return;
        }
        self.ids.push(&request.id);
        self.fingerprints.push(&request.fingerprint);
        self.domains.push(link.key.domain.as_str());
        self.codes.push(link.key.code.as_str());
        self.link_times.push(SqlTimestamp(link.created_at));
        self.created.push(created);
        self.times.push(SqlTimestamp(at));
    }

    async fn write(&self, transaction: &Transaction<'_>) -> Result<(), Failure> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO link_requests \
             (id, fingerprint, domain, code, link_created_at, created, at) \
             SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7)";
        let params = params![
            self.ids,
            self.fingerprints,
            self.domains,
            self.codes,
            self.link_times,
            self.created,
            self.times,
        ];
        transaction.execute(sql, params).await.map(drop)
    }
}

/// Puts events into the outbox, in the transaction of the write that they describe.
pub(crate) async fn post(
    transaction: &Transaction<'_>,
    events: &[(OutboxEvent, &Link)],
) -> Result<(), Failure> {
    Events::new(events)?.write(transaction).await
}

/// Events in columns.
struct Events {
    kinds: Vec<&'static str>,
    times: Vec<SqlTimestamp>,
    ids: Vec<Vec<u8>>,
    links: Vec<Vec<u8>>,
}

impl Events {
    fn new(events: &[(OutboxEvent, &Link)]) -> Result<Self, StoreError> {
        let mut ids = Vec::with_capacity(events.len());
        for _ in events {
            ids.push(EventId::random()?.0.to_vec());
        }
        Ok(Self {
            kinds: events.iter().map(|(event, _)| event.kind.as_str()).collect(),
            times: events.iter().map(|(event, _)| SqlTimestamp(event.at)).collect(),
            ids,
            links: events.iter().map(|(_, link)| link_codec::encode(link)).collect(),
        })
    }

    async fn write(&self, transaction: &Transaction<'_>) -> Result<(), Failure> {
        if self.ids.is_empty() {
            return Ok(());
        }
        // In the order of the list: `ORDER BY` decides in which order the numbers are taken.
        let sql = "INSERT INTO link_outbox (kind, at, event, link) \
             SELECT kind, at, event, link FROM unnest($1, $2, $3, $4) WITH ORDINALITY \
             AS e (kind, at, event, link, place) ORDER BY place";
        let params = params![self.kinds, self.times, self.ids, self.links];
        transaction.execute(sql, params).await.map(drop)
    }
}

/// Reads the id of a row, for rows of the outbox.
pub(crate) fn position(row: &Row) -> u64 {
    row.get::<_, i64>(0).cast_unsigned()
}
