//! Who may use the admin port: names and passwords, over HTTP basic auth.
//!
//! After a failed login all logins wait for a second, from whatever address: it bounds what can be tried, however many
//! connections and addresses are used, and costs those with the right password a second at most. A request without
//! credentials is not a login: it is answered at once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::middleware::Next;
use axum::response::IntoResponse;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;
use tidegate_service::Peer;
use tokio::time::{Instant, sleep_until};

use crate::config::Password;

const CHALLENGE: &str = "Basic realm=\"Authorization Required\"";

/// How long all logins wait after one that failed.
const FAILURE_DELAY: Duration = Duration::from_secs(1);

/// Name and password with a colon between them, as they come over the wire.
type Credentials = Box<[u8]>;

/// The accounts of administrators, which may change. Without any the port is open. Clones share them.
#[derive(Clone)]
pub(crate) struct Accounts(Arc<Inner>);

struct Inner {
    credentials: ArcSwap<Vec<Credentials>>,
    /// Logins wait until then.
    delayed_until: Mutex<Option<Instant>>,
}

impl fmt::Debug for Accounts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Accounts({})", self.0.credentials.load().len())
    }
}

impl Accounts {
    pub(crate) fn new(accounts: &BTreeMap<String, Password>) -> Self {
        Self(Arc::new(Inner {
            credentials: ArcSwap::from_pointee(credentials(accounts)),
            delayed_until: Mutex::default(),
        }))
    }

    /// Has these accounts hold from now on, and no others.
    pub(crate) fn replace(&self, accounts: &BTreeMap<String, Password>) {
        self.0.credentials.store(Arc::new(credentials(accounts)));
    }

    /// Whether a request may pass. Waits where a login has failed before.
    async fn admit(&self, headers: &HeaderMap, peer: Option<Peer>) -> bool {
        if self.0.credentials.load().is_empty() {
            return true;
        }
        let Some(presented) = presented(headers) else {
            return false;
        };
        self.until_allowed().await;
        if self.is_known(&presented) {
            return true;
        }
        *self.lock() = Some(Instant::now() + FAILURE_DELAY);
        let account = self.account_of(&presented);
        let account = account.as_deref().unwrap_or("unknown");
        let peer = peer.map(|peer| peer.address.to_string());
        let peer = peer.unwrap_or_default();
        tracing::warn!(peer, account, "failed login at the admin port");
        self.until_allowed().await;
        false
    }

    async fn until_allowed(&self) {
        let until = *self.lock();
        if let Some(until) = until {
            sleep_until(until).await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        let delayed_until = self.0.delayed_until.lock();
        delayed_until.unwrap_or_else(PoisonError::into_inner)
    }

    fn is_known(&self, presented: &[u8]) -> bool {
        // All accounts are looked at, whichever it is.
        let mut is_known = false;
        for account in self.0.credentials.load().iter() {
            // In constant time: no part of a password can be found by measuring.
            is_known |= bool::from(presented.ct_eq(account));
        }
        is_known
    }

    /// The name of the account of a login, if there is such an account. Other names are not logged: they may be
    /// passwords in the wrong place.
    fn account_of(&self, presented: &[u8]) -> Option<String> {
        let name = name_of(presented)?;
        let accounts = self.0.credentials.load();
        let is_account = accounts
            .iter()
            .any(|account| name_of(account) == Some(name));
        is_account.then(|| String::from_utf8_lossy(name).into_owned())
    }
}

fn name_of(credentials: &[u8]) -> Option<&[u8]> {
    let colon = credentials.iter().position(|byte| *byte == b':')?;
    credentials.get(..colon)
}

fn credentials(accounts: &BTreeMap<String, Password>) -> Vec<Credentials> {
    let credentials = accounts.iter().map(|(name, password)| {
        let text = format!("{name}:{}", password.text());
        text.into_bytes().into_boxed_slice()
    });
    credentials.collect()
}

/// What a route does for those who are let in.
pub(super) async fn guard(
    State(accounts): State<Accounts>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let peer = request.extensions().get::<Peer>().cloned();
    if accounts.admit(request.headers(), peer).await {
        return next.run(request).await;
    }
    let challenge = [(header::WWW_AUTHENTICATE, CHALLENGE)];
    (StatusCode::UNAUTHORIZED, challenge).into_response()
}

/// What came with a request.
fn presented(headers: &HeaderMap) -> Option<Vec<u8>> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, credentials) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    STANDARD.decode(credentials.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts() -> Accounts {
        let password = Password::from("secret".to_owned());
        Accounts::new(&BTreeMap::from([("ops".to_owned(), password)]))
    }

    async fn admitted(accounts: &Accounts, value: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        accounts.admit(&headers, None).await
    }

    fn basic(text: &str) -> String {
        format!("Basic {}", STANDARD.encode(text))
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_and_nonsense_are_no_account() {
        let accounts = accounts();
        let before = Instant::now();
        assert!(!accounts.admit(&HeaderMap::new(), None).await);
        assert!(admitted(&accounts, &basic("ops:secret")).await);
        assert!(admitted(&accounts, &basic("ops:secret").replace("Basic", "basic")).await);
        assert_eq!(before.elapsed(), Duration::ZERO);
        for wrong in [
            "ops:",
            "ops:secre",
            "ops:secrets",
            "op:secret",
            "ops:secret\0",
        ] {
            assert!(!admitted(&accounts, &basic(wrong)).await, "{wrong}");
        }
        for value in [
            "",
            "Basic",
            "Basic ",
            "Basic %%%",
            "Bearer b3BzOnNlY3JldA==",
        ] {
            assert!(!admitted(&accounts, value).await, "{value}");
        }
        assert_eq!(format!("{accounts:?}"), "Accounts(1)");
        accounts.replace(&BTreeMap::new());
        assert!(accounts.admit(&HeaderMap::new(), None).await);
    }

    /// A client that does not wait for its answer gains nothing: the next login waits, right or wrong.
    #[tokio::test(start_paused = true)]
    async fn a_failed_login_delays_all_logins_by_a_second() {
        let accounts = accounts();
        let began_at = Instant::now();
        assert!(admitted(&accounts, &basic("ops:secret")).await);
        assert_eq!(began_at.elapsed(), Duration::ZERO);
        let hurried = Duration::from_millis(1);
        let wrong = basic("ops:wrong");
        let left = tokio::time::timeout(hurried, admitted(&accounts, &wrong)).await;
        assert!(left.is_err());
        assert!(admitted(&accounts, &basic("ops:secret")).await);
        assert_eq!(began_at.elapsed(), FAILURE_DELAY);
        assert!(!accounts.admit(&HeaderMap::new(), None).await);
        assert_eq!(began_at.elapsed(), FAILURE_DELAY);
    }

    #[test]
    fn only_names_of_accounts_are_logged() {
        let accounts = accounts();
        assert_eq!(accounts.account_of(b"ops:x").as_deref(), Some("ops"));
        assert_eq!(accounts.account_of(b"secret:x"), None);
        assert_eq!(accounts.account_of(b"secret"), None);
    }
}
