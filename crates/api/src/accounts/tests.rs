use super::*;

fn accounts() -> Accounts {
    let password = |text: &str| Password::from(text.to_owned());
    let accounts = [("ops", "secret"), ("desk", "word")];
    let accounts = accounts.map(|(name, text)| (name.to_owned(), password(text)));
    let roles = BTreeMap::from([("desk".to_owned(), AccountRole::View)]);
    Accounts::new(&BTreeMap::from(accounts), &roles)
}

async fn admitted(accounts: &Accounts, value: &str) -> bool {
    let mut headers = HeaderMap::new();
    headers.insert(header::AUTHORIZATION, value.parse().unwrap());
    matches!(accounts.admit(&headers, None).await, Admission::Admitted(_))
}

fn basic(text: &str) -> String {
    format!("Basic {}", STANDARD.encode(text))
}

#[tokio::test(start_paused = true)]
async fn missing_and_malformed_credentials_are_rejected() {
    let accounts = accounts();
    let before = Instant::now();
    let nothing = HeaderMap::new();
    assert_eq!(accounts.admit(&nothing, None).await, Admission::Refused);
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
    assert_eq!(format!("{accounts:?}"), "Accounts(2)");
    accounts.replace(&BTreeMap::new(), &BTreeMap::new());
    let user = AdminUser {
        account: None,
        role: AccountRole::Admin,
    };
    assert_eq!(
        accounts.admit(&nothing, None).await,
        Admission::Admitted(user)
    );
}

#[tokio::test(start_paused = true)]
async fn an_account_has_its_role_and_is_an_admin_without_one() {
    let accounts = accounts();
    for (login, name, role) in [
        ("ops:secret", "ops", AccountRole::Admin),
        ("desk:word", "desk", AccountRole::View),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, basic(login).parse().unwrap());
        let user = AdminUser {
            account: Some(name.into()),
            role,
        };
        let admission = accounts.admit(&headers, None).await;
        assert_eq!(admission, Admission::Admitted(user));
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_login_delays_the_next_by_a_second() {
    let accounts = accounts();
    let began_at = Instant::now();
    assert!(admitted(&accounts, &basic("ops:secret")).await);
    assert!(!admitted(&accounts, &basic("ops:wrong")).await);
    assert_eq!(began_at.elapsed(), Duration::ZERO);
    let nothing = HeaderMap::new();
    assert_eq!(accounts.admit(&nothing, None).await, Admission::Refused);
    assert_eq!(began_at.elapsed(), Duration::ZERO);
    assert!(admitted(&accounts, &basic("ops:secret")).await);
    assert_eq!(began_at.elapsed(), FAILURE_DELAY);
}

/// Waiting logins are checked one by one, and a client that disconnects does not shorten the delay.
#[tokio::test(start_paused = true)]
async fn one_password_a_second_is_tried_over_any_number_of_connections() {
    let accounts = accounts();
    assert!(!admitted(&accounts, &basic("ops:wrong")).await);
    let began_at = Instant::now();
    let impatient = Duration::from_millis(1);
    let secret = basic("ops:secret");
    let left = tokio::time::timeout(impatient, admitted(&accounts, &secret)).await;
    assert!(left.is_err());
    let try_one = |number: usize| {
        let (accounts, credentials) = (accounts.clone(), basic(&format!("ops:{number}")));
        tokio::spawn(async move {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, credentials.parse().unwrap());
            accounts.admit(&headers, None).await
        })
    };
    let tries: Vec<_> = (0..3 * WAITING_MAX).map(try_one).collect();
    let mut crowded = 0;
    for one in tries {
        crowded += usize::from(one.await.unwrap() == Admission::Crowded);
    }
    assert_eq!(crowded, 2 * WAITING_MAX);
    let seconds = u32::try_from(WAITING_MAX).unwrap();
    assert_eq!(began_at.elapsed(), FAILURE_DELAY * seconds);
}

/// Many requests at a time are normal: a page loads several files, and scripts run in parallel.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn valid_logins_are_admitted_at_any_number_at_a_time() {
    let accounts = accounts();
    let admit = |_| {
        let accounts = accounts.clone();
        tokio::spawn(async move { admitted(&accounts, &basic("ops:secret")).await })
    };
    for login in (0..2000).map(admit).collect::<Vec<_>>() {
        assert!(login.await.unwrap());
    }
}

#[test]
fn only_names_of_accounts_are_logged() {
    let accounts = accounts();
    assert_eq!(accounts.account_of(b"ops:x").as_deref(), Some("ops"));
    assert_eq!(accounts.account_of(b"secret:x"), None);
    assert_eq!(accounts.account_of(b"secret"), None);
}
