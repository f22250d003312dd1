//! A listener whose pool is not the default one, and moves to another Redis.

use tidegate_testkit::{Stack, consistency};

use crate::fixture::YouzanStack;

#[tokio::test]
async fn jobs_and_entries_are_found_while_the_pool_moves() {
    let builder = Stack::builder().pool("old").pool("new");
    let (YouzanStack { stack, client }, settings) =
        YouzanStack::start_with(builder, "pool = \"old\"").await;
    for id in ["1", "2", "3", "4"] {
        client.add("order", id, 0, "old").await;
    }
    client.expect_pop("order", "1", "old").await;
    let stored = async |pool: &str| {
        let totals = consistency::totals(&stack.redis_of(pool).url()).await;
        totals.ready + totals.delayed + totals.leased + totals.dead
    };
    assert_eq!((stored("old").await, stored("new").await), (4, 0));
    let old = format!("url = \"{}\"", stack.redis_of("old").url());
    let new = format!("url = \"{}\"", stack.redis_of("new").url());
    // The same key may not be in two tables of a file, so the tables are written here.
    let moving =
        format!("{settings}\n[pool.older]\n{old}\nmigrate_to = \"newer\"\n[pool.newer]\n{new}\n");
    stack.change_api_config(&moving.replace("pool = \"old\"", "pool = \"older\""));
    stack.api(0).kill();
    stack.api(0).restart().await;
    client.finish("1").await;
    client.delete("2").await;
    client.add("order", "3", 0, "replaced").await;
    client.add("bill", "4", 0, "moved").await;
    assert_eq!((stored("old").await, stored("new").await), (1, 1));
    client.expect_pop("order", "3", "replaced").await;
    client.expect_pop("bill", "4", "moved").await;
    assert_eq!(client.pop("order", 0).await, None);
    client.finish("3").await;
    client.finish("4").await;
    assert_eq!((stored("old").await, stored("new").await), (0, 0));
    stack.finish().await;
}
