//! Requests with a key: what such a request makes is made once, however often it is sent.

use runwire_frame::RunStatus;
use runwire_store::{AddExchangeError, CreateError, KeyError, KeyedRun, ReadError, RequestKey};

use super::digest::{former_request_digest, request_digest};
use super::{Engine, removed};
use crate::clock::now;
use crate::idempotency::IdempotencyKey;
use crate::request::{CreateRun, CreateRunError, RunRequest, Started};

impl Engine {
    /// The same as [`Engine::create_run`] for a request that its sender may repeat under this key, which is its principal's.
    ///
    /// The first one is executed and remembered in the transaction that stores what it makes. The same again is answered with
    /// the run as it stands, also after a restart, and starts nothing, supersedes nothing and is refused by no limit. Of
    /// several at once one is executed, and the others wait for what it comes to. A request that is refused is not
    /// remembered.
    ///
    /// # Errors
    /// [`CreateRunError`]; [`CreateRunError::KeyTaken`] when the key was used for something else,
    /// [`CreateRunError::Removed`] when what it made was removed. Dropping the future may leave a run that was started: the
    /// repeated request finds it.
    pub async fn create_run_once(&self, create: CreateRun, key: IdempotencyKey) -> Result<Started, CreateRunError> {
        self.in_one_piece(|engine| async move { engine.create_by_key(create, key).await }).await
    }

    async fn create_by_key(self, mut create: CreateRun, key: IdempotencyKey) -> Result<Started, CreateRunError> {
        let principal = create.principal.clone();
        let _alone = self.inner.keys.take(principal.as_deref(), &key).await;
        let mut key = RequestKey {
            principal,
            key: key.as_str().to_owned(),
            request_digest: request_digest(&create),
            created_at: now().unix_millis(),
        };
        let principal = key.principal.as_deref();
        let store = self.inner.store.clone();
        let found = match store.run_by_key(principal, &key.key).await {
            Err(ReadError::Removed(tombstone)) => return Err(removed(tombstone, principal)),
            found => found?,
        };
        if let Some(KeyedRun { record, exchange_id, request_digest }) = found {
            if request_digest != key.request_digest {
                if request_digest != former_request_digest(&create) {
                    return Err(CreateRunError::KeyTaken { key: key.key, run_id: record.run_id });
                }
                // The store knows it by the digest that it has.
                key.request_digest = request_digest;
            }
            match &mut create.request {
                // A server may have died between taking the answer and acting on it: then it is acted on now.
                RunRequest::Input(input)
                    if record.status == RunStatus::Suspended.as_str() && !input.resume().is_empty() =>
                {
                    input.thread_id = record.session_id;
                    input.run_id = exchange_id;
                }
                _ => return Ok(Started { record, exchange_id, existing: true }),
            }
        }
        let text = key.key.clone();
        let started = match self.create(create, Some(key.clone())).await {
            Err(
                CreateRunError::Create(CreateError::KeyTaken { run_id })
                | CreateRunError::Exchange(AddExchangeError::KeyTaken { run_id }),
            ) => return Err(CreateRunError::KeyTaken { key: text, run_id }),
            started => started?,
        };
        if started.existing {
            // It was made without this key, by its ids.
            match store.remember_key(&started.record.run_id, &started.exchange_id, key).await {
                // It was removed since, and its ids say so as long as that is known.
                Ok(()) | Err(KeyError::UnknownRun) => {}
                Err(KeyError::Taken { run_id }) => return Err(CreateRunError::KeyTaken { key: text, run_id }),
                Err(KeyError::Removed(tombstone)) => return Err(CreateRunError::Removed(tombstone)),
                Err(KeyError::Storage(failure)) => return Err(CreateRunError::Create(failure.into())),
            }
        }
        Ok(started)
    }
}
