//! The threads that read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use terse_core::Numbering;

use crate::engine::connect_reader;
use crate::issued::Issued;
use crate::options::Options;
use crate::queue::{Queue, Taken};
use crate::shelf::Shelf;

/// The most lookups to share one read transaction: half of a lookup is beginning and ending it.
const BATCH: usize = 256;

/// Something to look up, given a connection or the reason why there is none. Says whether the connection still works.
pub(crate) type Errand = Box<dyn FnOnce(Result<&Shelf, &str>) -> Connected + Send>;

/// Whether a connection can be used again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Connected {
    Yes,
    No,
}

pub(crate) struct Reader {
    pub(crate) options: Options,
    pub(crate) numbering: Numbering,
    pub(crate) issued: Arc<Issued>,
    pub(crate) queue: Arc<Queue<Errand>>,
    /// How many readers serve this queue: the last one to leave closes it.
    pub(crate) crew: Arc<AtomicUsize>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.crew.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.queue.abandon();
        }
    }
}

impl Reader {
    /// Reads until the queue is closed and empty.
    pub(crate) fn run(self) {
        let mut shelf = None;
        while let Taken::Items(errands) = self.queue.take(BATCH) {
            let opened = match shelf.take() {
                Some(shelf) => Ok(shelf),
                None => self.open(),
            };
            match opened.and_then(|opened| begin(&opened).map(|()| opened)) {
                Ok(opened) => {
                    let mut connected = Connected::Yes;
                    for errand in errands {
                        if errand(Ok(&opened)) == Connected::No {
                            connected = Connected::No;
                        }
                    }
                    if connected == Connected::Yes && end(&opened).is_ok() {
                        shelf = Some(opened);
                    }
                }
                Err(error) => {
                    let why = error.to_string();
                    for errand in errands {
                        errand(Err(&why));
                    }
                }
            }
        }
    }

    fn open(&self) -> rusqlite::Result<Shelf> {
        let conn = connect_reader(&self.options)?;
        Ok(Shelf::new(conn, self.numbering.clone(), self.issued.clone()))
    }
}

/// The snapshot is taken by the first lookup, so it holds everything that was answered before any of them was asked.
fn begin(shelf: &Shelf) -> rusqlite::Result<()> {
    shelf.conn.prepare_cached("BEGIN")?.execute([]).map(|_| ())
}

fn end(shelf: &Shelf) -> rusqlite::Result<()> {
    shelf.conn.prepare_cached("COMMIT")?.execute([]).map(|_| ())
}
