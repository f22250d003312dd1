//! Who may use the admin port: names and passwords, over HTTP basic auth.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

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

/// The accounts of administrators. Without any the port is open.
#[derive(Clone)]
pub(super) struct Accounts(Arc<[Box<[u8]>]>);

impl fmt::Debug for Accounts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Accounts({})", self.0.len())
    }
}

impl Accounts {
    pub(super) fn new(accounts: &BTreeMap<String, Password>) -> Self {
        let credentials = accounts.iter().map(|(name, password)| {
            let text = format!("{name}:{}", password.text());
            text.into_bytes().into_boxed_slice()
        });
        Self(credentials.collect())
    }

    fn admit(&self, headers: &HeaderMap) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let presented = presented(headers).unwrap_or_default();
        // All accounts are looked at, whichever it is.
        let mut admitted = false;
        for account in &*self.0 {
            // In constant time: no part of a password can be found by measuring.
            admitted |= bool::from(presented.ct_eq(account));
        }
        admitted
    }
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

/// Name and password with a colon between them, as they came.
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
    }
}
