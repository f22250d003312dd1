//! Pages that are kept up to date, and what that costs.

use std::time::Duration;

use serde_json::json;
use tidegate_testkit::{NativeClient, Stack, eventually, print_figure};

use crate::browser::{BrowserOptions, walk, walk_with};
use crate::fixture::{DashboardFixture, publish};

#[tokio::test]
async fn numbers_change_without_loading_the_page_again() {
    let fixture = DashboardFixture::new().await;
    walk("live", &fixture.base(), async |browser| {
        browser.open_page(&fixture.queue()).await;
        browser.shows("Up to date").await;
        browser.run("document.title = 'as it was'").await;
        for _ in 0..7 {
            fixture.publish(&json!({})).await;
        }
        browser.shows("7\nready").await;
        assert_eq!(browser.run("return document.title").await, "as it was");
        // What was typed stays.
        browser.shows("The oldest ready job").await;
    })
    .await;
}

#[tokio::test]
async fn charts_are_drawn_while_a_page_is_open() {
    let fixture = DashboardFixture::new().await;
    walk("charts", &fixture.base(), async |browser| {
        browser.open_page(&fixture.queue()).await;
        for _ in 0..40 {
            fixture.publish(&json!({})).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        browser.shows("published").await;
        browser
            .shows("Rates count the jobs of this process of tidegate-api only")
            .await;
        let points = browser
            .run(
                "return document.querySelectorAll('.chart')[0].querySelectorAll('polyline').length",
            )
            .await;
        assert!(points.as_u64().unwrap() >= 2, "{points}");
        let legend = browser.texts(".chart:first-child .legend").await;
        assert!(
            legend[0].contains("/s") && !legend[0].ends_with(" 0/s"),
            "{legend:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn everything_works_without_script() {
    let fixture = DashboardFixture::new().await;
    fixture.dead_jobs(60).await;
    let options = BrowserOptions {
        without_script: true,
    };
    walk_with(
        options,
        "without-script",
        &fixture.base(),
        async |browser| {
            browser.open_page(&fixture.queue()).await;
            browser.press("Pause deliveries").await;
            browser.shows("The queue is paused").await;
            browser.press("Dead jobs").await;
            browser.choose("do", "respawn").await;
            browser.fill("rate_per_second", "2").await;
            browser.press("Count them first").await;
            browser.press("Do it").await;
            browser.shows("so far").await;
            // The page goes on when the button is pressed.
            eventually(
                "all are brought back",
                Duration::from_secs(60),
                async || {
                    if browser.offers("Go on").await {
                        browser.press("Go on").await;
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                    let shown = browser.text().await;
                    let is_done =
                        shown.contains("60 jobs changed of 60 that matched. That is all.");
                    if is_done { Ok(()) } else { Err(shown) }
                },
            )
            .await;
            assert_eq!(fixture.count("dead").await, 0);
        },
    )
    .await;
}

/// The number of commands that pages send, and others of the same kind, which Redis has executed since its start.
async fn commands(url: &str) -> u64 {
    let client = redis::Client::open(url).unwrap();
    let mut redis = tidegate_testkit::connect_to_redis(&client).await.unwrap();
    let stats: String = redis::cmd("INFO")
        .arg("commandstats")
        .query_async(&mut redis)
        .await
        .unwrap();
    let calls = stats.lines().filter_map(|line| {
        let (name, counts) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let is_of_pages = ["get", "zrange", "info", "llen", "evalsha"].contains(&name);
        counts
            .split(',')
            .next()?
            .parse::<u64>()
            .ok()
            .filter(|_| is_of_pages)
    });
    calls.sum()
}

/// Redis counts all commands; what it does for the processes themselves is the same before, while and after a page is
/// open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dashboard_that_is_not_watched_sends_nothing_to_redis() {
    const SECONDS: u64 = 6;
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    publish(&client, &json!({"delay": "1h"})).await;
    let url = stack.redis.url();
    let during = async || {
        let before = commands(&url).await;
        tokio::time::sleep(Duration::from_secs(SECONDS)).await;
        commands(&url).await - before
    };
    // A page was looked at once.
    reqwest::get(format!("{}/ui/default/system", stack.api(0).admin_url()))
        .await
        .unwrap();
    // The processes have started when the pump leads all buckets, and each was looked at once.
    let unwatched = eventually("Redis is idle", Duration::from_secs(90), async || {
        let commands = during().await;
        if commands < 256 {
            Ok(commands)
        } else {
            Err(commands)
        }
    })
    .await;
    let base = stack.api(0).admin_url();
    let mut watched = 0;
    walk("watched", &base, async |browser| {
        browser.open_page("/ui/default/system").await;
        browser.shows("Up to date").await;
        watched = during().await;
    })
    .await;
    let afterwards = during().await;
    let mut with_list = 0;
    walk("watched-list", &base, async |browser| {
        browser.open_page("/ui/default/queues/shop/q/jobs").await;
        browser.shows("Up to date").await;
        with_list = during().await;
    })
    .await;
    print_figure(&format!(
        "commands of Redis in {SECONDS} s: {unwatched} without a page, {watched} with that of the system, \
         {with_list} with a list of jobs, {afterwards} when it was closed"
    ));
    // It takes at most ten calls a second.
    assert!(
        with_list < unwatched + 256 + 10 * SECONDS,
        "{with_list} {unwatched}"
    );
    // A page reads the locks of 256 buckets each second.
    assert!(watched > 256 * (SECONDS - 2), "{watched}");
    assert!(
        unwatched < 256 && afterwards < 512,
        "{unwatched} {afterwards}"
    );
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_says_when_redis_is_away_and_goes_on_when_it_is_back() {
    let stack = Stack::builder()
        .api_config("[pool.default]\ncommand_timeout = \"500ms\"\n")
        .start()
        .await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    publish(&client, &json!({"delay": "1h"})).await;
    let base = stack.api(0).admin_url();
    walk("redis-away", &base, async |browser| {
        browser.open_page("/ui/default/queues/shop/q").await;
        browser.shows("Up to date").await;
        stack.redis.pause().unwrap();
        browser.shows("Redis gave no answer").await;
        stack.redis.resume().unwrap();
        browser.shows("Up to date").await;
        // The page itself says so, too.
        stack.redis.pause().unwrap();
        browser.open_page("/ui/default/queues/shop/q").await;
        browser.shows("Not available").await;
        stack.redis.resume().unwrap();
    })
    .await;
    stack.finish().await;
}

/// As many streams as the API keeps: a page gets no stream then, and the browser does not ask again by itself.
#[tokio::test]
async fn a_page_without_a_place_is_kept_up_to_date_when_one_is_free() {
    const STREAMS: usize = 64;
    let stack = Stack::builder().start().await;
    let base = stack.api(0).admin_url();
    let client = reqwest::Client::new();
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let page = client.get(format!("{base}/ui/default/queues"));
        let answer = page.header("Accept", "text/event-stream").send().await;
        streams.push(answer.unwrap());
    }
    walk("crowded", &base, async |browser| {
        browser.open_page("/ui/default/queues").await;
        browser.shows("Not kept up to date").await;
        streams.clear();
        browser.shows("Up to date").await;
    })
    .await;
    stack.finish().await;
}
