//! Who may use the admin port: names and passwords, over HTTP basic auth.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::middleware::Next;
use axum::response::IntoResponse;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;

use crate::config::Password;

const CHALLENGE: &str = "Basic realm=\"Authorization Required\"";

/// Name and password with a colon between them, as they come over the wire.
type Credentials = Box<[u8]>;

/// The accounts of administrators, which may change. Without any the port is open. Clones share them.
#[derive(Clone)]
pub(crate) struct Accounts(Arc<ArcSwap<Vec<Credentials>>>);

impl fmt::Debug for Accounts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Accounts({})", self.0.load().len())
    }
}

impl Accounts {
    pub(crate) fn new(accounts: &BTreeMap<String, Password>) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(credentials(accounts))))
    }

    /// Has these accounts hold from now on, and no others.
    pub(crate) fn replace(&self, accounts: &BTreeMap<String, Password>) {
        self.0.store(Arc::new(credentials(accounts)));
    }

    fn admit(&self, headers: &HeaderMap) -> bool {
        let accounts = self.0.load();
        if accounts.is_empty() {
            return true;
        }
        let presented = presented(headers).unwrap_or_default();
        // All accounts are looked at, whichever it is.
        let mut admitted = false;
        for account in accounts.iter() {
            // In constant time: no part of a password can be found by measuring.
            admitted |= bool::from(presented.ct_eq(account));
        }
        admitted
    }
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
    if accounts.admit(request.headers()) {
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

    #[test]
    fn nothing_and_nonsense_are_no_account() {
        let password = Password::from("secret".to_owned());
        let accounts = Accounts::new(&BTreeMap::from([("ops".to_owned(), password)]));
        let admitted = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            accounts.admit(&headers)
        };
        assert!(!accounts.admit(&HeaderMap::new()));
        assert!(admitted(&format!(
            "Basic {}",
            STANDARD.encode("ops:secret")
        )));
        assert!(admitted(&format!(
            "basic {}",
            STANDARD.encode("ops:secret")
        )));
        for wrong in [
            "ops:",
            "ops:secre",
            "ops:secrets",
            "op:secret",
            "ops:secret\0",
        ] {
            assert!(
                !admitted(&format!("Basic {}", STANDARD.encode(wrong))),
                "{wrong}"
            );
        }
        for value in [
            "",
            "Basic",
            "Basic ",
            "Basic %%%",
            "Bearer b3BzOnNlY3JldA==",
        ] {
            assert!(!admitted(value), "{value}");
        }
        assert_eq!(format!("{accounts:?}"), "Accounts(1)");
        accounts.replace(&BTreeMap::new());
        assert!(accounts.admit(&HeaderMap::new()));
    }
}
