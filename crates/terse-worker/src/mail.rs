//! Sends the mails that wait in the queue of this node.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::accounts::MailWriter;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::{BoxError, MailQueue, MailTransport, QueuedMail};

/// How often a mail is tried, and how long the job waits after each failure.
const WAITS: [Duration; 4] = [
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(300),
    Duration::from_secs(1800),
];

/// Writes and sends each mail that is due. A mail that the server refuses for good, or that failed
/// five times, is given up.
pub struct MailDelivery {
    /// What waits.
    pub queue: Arc<MailQueue>,
    /// Writes the texts.
    pub writer: MailWriter,
    /// Sends them.
    pub transport: Arc<dyn MailTransport>,
}

impl MailDelivery {
    async fn deliver(&self, mut queued: QueuedMail) {
        if queued.mail.is_none() {
            match self.writer.write(&queued.request).await {
                Ok(Some(mail)) => queued.mail = Some(mail),
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "a mail could not be written");
                    return self.later(queued);
                }
            }
        }
        let Some(mail) = &queued.mail else { return };
        match self.transport.send(mail).await {
            Ok(()) => self.queue.count(true),
            Err(error) if error.permanent => {
                tracing::error!(%error, "a mail was refused");
                self.queue.count(false);
            }
            Err(error) => {
                tracing::warn!(%error, attempt = queued.attempts + 1, "a mail was not sent");
                self.later(queued);
            }
        }
    }

    /// Tries a mail again later, if it has an attempt left.
    fn later(&self, mut queued: QueuedMail) {
        let wait = usize::try_from(queued.attempts).ok().and_then(|done| WAITS.get(done));
        queued.attempts += 1;
        let due = wait.and_then(|wait| self.writer.now().checked_add(*wait));
        let again = due.is_some_and(|due| {
            queued.due = due;
            self.queue.push_again(queued)
        });
        if !again {
            self.queue.count(false);
        }
    }
}

#[async_trait]
impl Job for MailDelivery {
    fn name(&self) -> &'static str {
        "mail"
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(600)
    }

    async fn wake(&mut self) {
        self.queue.added().await;
    }

    async fn run(&mut self, _: &JobContext) -> Result<NextRun, BoxError> {
        while let Some(queued) = self.queue.take(self.writer.now()) {
            self.deliver(queued).await;
        }
        Ok(NextRun::Interval)
    }
}
