//! The clients in `examples/youzan`, which were written from `docs/youzan.md`.

use std::path::Path;
use std::process::Command;

use crate::fixture::{YouzanStack, stored_jobs};

/// Runs the session of a client against a listener with a token.
async fn run(program: &'static str, file: &'static str, install: &'static str) {
    let YouzanStack { stack, client } = YouzanStack::start("token = \"of-examples\"").await;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/youzan");
    let path = path.join(file);
    assert!(path.is_file(), "{}", path.display());
    let url = format!("http://{}", client.address);
    let running = tokio::task::spawn_blocking(move || {
        let mut command = Command::new(program);
        command.arg(path).args([&url, "of-examples"]).output()
    });
    let ran = running.await.unwrap().unwrap_or_else(|error| {
        panic!("this test needs the program {program} ({install}): {error}")
    });
    let (said, errors) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert!(ran.status.success() && said == "ok\n", "{said}{errors}");
    assert_eq!(stored_jobs(&stack).await, 0);
    stack.finish().await;
}

#[tokio::test]
async fn the_client_in_python_works() {
    run("python3", "client.py", "Debian: apt-get install python3").await;
}

#[tokio::test]
async fn the_client_in_php_works() {
    run("php", "client.php", "Debian: apt-get install php-cli").await;
}
