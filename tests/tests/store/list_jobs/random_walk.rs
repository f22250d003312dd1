//! Lists whose jobs come and go at random: what keeps its state and due time is in them.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tidegate_testkit::random;

use super::timers::turn_far_slots;
use super::*;

/// Jobs of a queue, some of which stay as they are while they are listed.
struct DisturbedQueue {
    f: StoreFixture,
    random: StdRng,
    now_ms: u64,
    /// How far the clock goes between two calls.
    step_ms: u64,
    /// The jobs that stay, and the state in which they do.
    stay: BTreeMap<JobId, JobState>,
    /// Ready, delayed and leased jobs that others change.
    others: Vec<JobId>,
    leases: Vec<LeasedJob>,
    keys: usize,
}

impl DisturbedQueue {
    /// More jobs at the heads of the lists than are taken, so that those behind stay. The delayed ones and the leases
    /// end later than the list, most of them in far slots, and have been set later or extended.
    async fn new(mut random: StdRng) -> Self {
        let f = fixture().await;
        let step_ms = [1000, 10 * 60_000][random.random_range(0..2)];
        let mut queue = Self {
            f,
            random,
            now_ms: START,
            step_ms,
            stay: BTreeMap::new(),
            others: Vec::new(),
            leases: Vec::new(),
            keys: 0,
        };
        queue.die(150).await;
        queue.end(300).await;
        queue.take(20).await;
        for _ in 0..150 {
            let delay_ms = queue.far_ms();
            let id = queue.publish(delayed("stays", delay_ms)).await;
            queue.stay.insert(id, JobState::Delayed);
        }
        for number in 0..2000 {
            let id = queue.publish(job("first")).await;
            if number % 10 == 0 {
                queue.others.push(id);
            }
        }
        for _ in 0..100 {
            let id = queue.publish(job("stays")).await;
            queue.stay.insert(id, JobState::Ready);
        }
        for _ in 0..30 {
            let near_ms = queue.random.random_range(1..20) * queue.step_ms;
            let (id, later_ms) = (
                queue.publish(delayed("later", near_ms)).await,
                queue.far_ms(),
            );
            change(&queue.f, queue.now_ms, id, later_ms).await;
            queue.stay.insert(id, JobState::Delayed);
        }
        queue
    }

    /// A delay that does not end while jobs are listed.
    fn far_ms(&mut self) -> u64 {
        10 * HOUR_MS + self.random.random_range(0..400 * DAY_MS)
    }

    async fn publish(&self, job: NewJob) -> JobId {
        self.f.publish(self.now_ms, job).await
    }

    /// Jobs die, one in five of them with a key. The first ones have been dead for longer.
    async fn die(&mut self, jobs: usize) {
        for number in 0..jobs {
            if number % 5 == 0 {
                publish_keyed(&self.f, self.now_ms, &format!("key{}", self.keys)).await;
                self.keys += 1;
            } else {
                self.publish(native("dead")).await;
            }
            let id = bury(&self.f, self.now_ms).await;
            if number == jobs / 3 {
                self.now_ms += 1000;
            }
            // Others are deleted, or brought back.
            if number % 5 != 0 && number > jobs / 3 {
                self.stay.insert(id, JobState::Dead);
            }
        }
        // They have two hints each.
        for key in 0..5 {
            publish_keyed(&self.f, self.now_ms, &format!("key{key}")).await;
            bury(&self.f, self.now_ms).await;
        }
    }

    /// Jobs are done. Some chunks of 100 expire soon.
    async fn end(&mut self, jobs: usize) {
        for number in 0..jobs {
            let stays = number % 3 > 0 && number > jobs / 3;
            let mut done = native("done");
            let retain_ms = if stays {
                30 * DAY_MS
            } else {
                20 * self.step_ms
            };
            let retain_ms = u32::try_from(retain_ms).unwrap();
            done.native.as_mut().unwrap().extension.retain_ms = Some(retain_ms);
            self.publish(done).await;
            let id = finish(&self.f, self.now_ms).await;
            if stays {
                self.stay.insert(id, JobState::Done);
            }
        }
    }

    /// Workers hold jobs for long: some extend their leases, and some had to.
    async fn take(&mut self, jobs: usize) {
        for number in 0..jobs {
            self.publish(native("leased")).await;
            let lease_ms = [4000, 12 * HOUR_MS][number % 2];
            let (id, attempt) = lease(&self.f, self.now_ms, lease_ms).await;
            self.leases.push(LeasedJob { id, attempt });
            self.stay.insert(id, JobState::Leased);
        }
        let store = self.f.store.at(self.now_ms);
        let touched = store.touch_all(&self.f.queue, &self.leases, Some(12 * HOUR_MS), 1000);
        touched.await.unwrap();
    }

    /// One of the jobs that do not stay.
    fn other(&mut self) -> JobId {
        self.others[self.random.random_range(0..self.others.len())]
    }

    /// What happens between two calls of a list.
    async fn disturb(&mut self) {
        self.now_ms += self.random.random_range(0..self.step_ms);
        let (now_ms, store) = (self.now_ms, self.f.store.at(self.now_ms));
        for _ in 0..self.random.random_range(0..5) {
            match self.random.random_range(0..10) {
                0 => drop(
                    self.f
                        .reserve(now_ms, self.random.random_range(1..40), 300)
                        .await,
                ),
                1 => {
                    let jobs: Vec<_> = (0..20).map(|_| job("new")).collect();
                    publish_all(&store, &self.f.queue, &jobs).await;
                }
                2 => {
                    let (id, attempt) = lease(&self.f, now_ms, 60_000).await;
                    let _ = store.release(&self.f.queue, id, attempt).await.unwrap();
                }
                3 => {
                    let delay_ms = self.random.random_range(1..DAY_MS);
                    let id = self.publish(delayed("new", delay_ms)).await;
                    self.others.push(id);
                }
                4 => {
                    let _ = self.f.move_due(now_ms).await;
                }
                5 => drop(self.f.sweep(now_ms).await),
                6 => {
                    let calls = self.random.random_range(1..4);
                    turn_far_slots(&self.f, calls).await;
                }
                // A second hint in the list of ready jobs; a timer that is set to another time.
                7 => {
                    let (id, delay_ms) = (self.other(), self.random.random_range(1..DAY_MS));
                    change(&self.f, now_ms, id, delay_ms).await;
                    if self.random.random() {
                        let _ = store.promote(&self.f.queue, id).await.unwrap();
                    }
                }
                8 => {
                    let id = self.other();
                    let cancelled = store.cancel(&self.f.queue, id, IfRunning::Refuse);
                    let _ = cancelled.await.unwrap();
                }
                // Old dead jobs are deleted, or one is brought back.
                _ => {
                    let key = format!("key{}", self.random.random_range(0..self.keys));
                    publish_keyed(&self.f, now_ms, &key).await;
                    let dead_for = Duration::from_millis(now_ms - START - 500);
                    store
                        .purge_dead_after(&self.f.queue, dead_for)
                        .await
                        .unwrap();
                }
            }
        }
    }

    /// Sets some jobs that were just listed to other times, as an action does.
    async fn change_some(&mut self, page: &[ListedJob]) {
        for listed in page {
            let waits = matches!(listed.job.state, JobState::Delayed | JobState::Ready);
            if waits && self.random.random_range(0..4) == 0 {
                let delay_ms = [0, self.random.random_range(1..400 * DAY_MS)];
                let delay_ms = delay_ms[self.random.random_range(0..2)];
                change(&self.f, self.now_ms, listed.job.id, delay_ms).await;
            }
        }
    }

    /// Returns which jobs that stay are missing in a list of those in these states.
    async fn list(mut self, states: &[JobState], hints: usize) -> Vec<JobId> {
        let selection = in_states(states);
        let acts = self.random.random();
        let (mut listed, mut position) = (BTreeSet::new(), None::<ListPosition>);
        for call in 0.. {
            let store = self.f.store.at(self.now_ms);
            let page = store.list_jobs(&self.f.queue, &selection, position.as_ref(), hints);
            let page = page.await.unwrap();
            listed.extend(ids(&page.jobs));
            position = page.next;
            if position.is_none() {
                break;
            }
            // Few enough that no job that stays is taken or due.
            if call < 40 {
                if acts {
                    self.change_some(&page.jobs).await;
                    position = position.map(ListPosition::behind_changed_jobs);
                }
                self.disturb().await;
            }
        }
        let stay = self.stay.into_iter();
        let missing = stay.filter(|(id, state)| states.contains(state) && !listed.contains(id));
        missing.map(|(id, _)| id).collect()
    }
}

/// Ready jobs are taken from the head and given back there, far slots are loaded and turned, jobs get second hints and
/// other times, chunks end.
#[tokio::test]
async fn jobs_that_stay_are_listed_while_others_come_and_go() {
    let mut random = random("jobs_that_stay_are_listed_while_others_come_and_go");
    let rounds = std::env::var("TIDEGATE_LIST_ROUNDS").map_or(6, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        let queue = DisturbedQueue::new(rand::SeedableRng::seed_from_u64(random.random())).await;
        let (hints, step_ms) = (random.random_range(5..60), queue.step_ms);
        let states = [
            &JobState::ALL[..],
            &[JobState::Delayed, JobState::Leased],
            &[JobState::Ready],
            &[JobState::Dead, JobState::Done],
        ][random.random_range(0..4)];
        let missing = queue.list(states, hints).await;
        assert!(
            missing.is_empty(),
            "round {round}, {states:?}, {hints} hints, steps of {step_ms} ms: {missing:?}"
        );
    }
}
