//! Keys by which a request may be repeated without its work being done twice.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A key that whoever asks has chosen for one request: the `Idempotency-Key` of HTTP. 1 to 255 visible characters of ASCII.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey(String);

/// What was given is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an idempotency key has 1 to 255 visible characters of ASCII, and no spaces")]
pub struct NotAKey;

impl IdempotencyKey {
    /// The most characters that one has.
    pub const MAX_LENGTH: usize = 255;

    /// The key of these characters.
    ///
    /// # Errors
    /// When it is empty, longer than [`MAX_LENGTH`](Self::MAX_LENGTH), or has anything else than visible ASCII.
    pub fn new(key: impl Into<String>) -> Result<IdempotencyKey, NotAKey> {
        let key = key.into();
        let fits = (1..=Self::MAX_LENGTH).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
        if fits { Ok(IdempotencyKey(key)) } else { Err(NotAKey) }
    }

    /// Its characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A key and whose it is.
type Owned = (Option<String>, String);

/// The keys whose requests are at work: of two requests with one key the second waits for what the first comes to, rather
/// than be told that the first is in its way. Holds as many as there are such requests, and is locked for a look only.
#[derive(Default)]
pub(crate) struct KeysUnderway {
    keys: Mutex<HashSet<Owned>>,
    /// Wakes whoever waits for a key.
    released: Notify,
}

/// The sole right to create something by a key. Released when dropped.
pub(crate) struct Underway {
    keys: Arc<KeysUnderway>,
    key: Owned,
}

impl KeysUnderway {
    /// Takes the key, once whoever else has it is through. Dropped while it waits, it has changed nothing.
    pub(crate) async fn take(self: &Arc<Self>, principal: Option<&str>, key: &IdempotencyKey) -> Underway {
        let key = (principal.map(str::to_owned), key.0.clone());
        loop {
            let released = self.released.notified();
            tokio::pin!(released);
            // Listening first, so that no release falls between the look and the wait.
            released.as_mut().enable();
            if self.lock().insert(key.clone()) {
                return Underway { keys: self.clone(), key };
            }
            released.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Owned>> {
        // Each change is one insertion or removal.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.keys.lock().remove(&self.key);
        self.keys.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_key_is_1_to_255_visible_characters_of_ascii() {
        let longest = "k".repeat(255);
        for key in ["k", "8e03978e-40d5-43dd-bc93-6894a57f9324", "!~\"\\,;", &longest] {
            assert_eq!(IdempotencyKey::new(key).unwrap().as_str(), key);
        }
        for none in ["", " ", "a b", "a\n", "é", "\u{7f}", &"k".repeat(256)] {
            assert_eq!(IdempotencyKey::new(none), Err(NotAKey), "{none:?}");
        }
    }

    #[test]
    fn a_key_is_one_requests_at_a_time_and_other_keys_wait_for_nothing() {
        let keys = Arc::new(KeysUnderway::default());
        let key = |key: &str| IdempotencyKey::new(key).unwrap();
        let first = keys.take(Some("ann"), &key("k")).now_or_never().unwrap();
        for (principal, other) in [(Some("bob"), "k"), (None, "k"), (Some("ann"), "l")] {
            assert!(keys.take(principal, &key(other)).now_or_never().is_some());
        }
        let k = key("k");
        let mut second = Box::pin(keys.take(Some("ann"), &k));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        let second = second.now_or_never().unwrap();
        drop(second);
        assert!(keys.lock().is_empty(), "nothing is kept of what is through");
    }
}
