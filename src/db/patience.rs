//! How long a call waits for others, and how it sleeps meanwhile.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::thread;
use std::time::{Duration, Instant};

/// First pause: about the time of one durable commit.
const SHORTEST: Duration = Duration::from_millis(1);
/// Longest pause. Eight processes with 200 durable writes each: 4 s in all and no write over 1.6 s; with 16 ms 6 s and
/// 3.6 s; with the 100 ms of SQLite's own handler 7 s and 6.3 s.
const LONGEST: Duration = Duration::from_millis(4);

/// A budget of waiting, spent in short pauses.
///
/// The pauses grow and are jittered, so that processes that collided once do not keep step.
pub(super) struct Patience {
    began: Instant,
    budget: Duration,
    pause: Duration,
}

impl Patience {
    pub fn new(budget: Duration) -> Self {
        Self {
            began: Instant::now(),
            budget,
            pause: SHORTEST,
        }
    }

    /// Time since the wait began.
    pub fn waited(&self) -> Duration {
        self.began.elapsed()
    }

    /// What is left of the budget.
    pub fn left(&self) -> Duration {
        self.budget.saturating_sub(self.waited())
    }

    /// Sleeps a little. Answers false, without sleeping, when the budget is spent.
    pub fn rest(&mut self) -> bool {
        let left = self.left();
        if left.is_zero() {
            return false;
        }
        let half = self.pause / 2;
        let jitter = RandomState::new().build_hasher().finish() % 1024;
        let pause = half + self.pause.mul_f64(jitter as f64 / 1024.0);
        thread::sleep(pause.min(left));
        self.pause = (self.pause * 2).min(LONGEST);
        true
    }

    /// Repeats `work` while others are in its way and the budget lasts, and answers its last result.
    pub fn retry<T, E>(
        &mut self,
        busy: impl Fn(&E) -> bool,
        mut work: impl FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        loop {
            match work() {
                Err(error) if busy(&error) && self.rest() => {}
                outcome => return outcome,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_when_its_budget_is_spent() {
        let mut patience = Patience::new(Duration::from_millis(60));
        let mut tries = 0;
        let outcome: Result<(), &str> = patience.retry(
            |_| true,
            || {
                tries += 1;
                Err("busy")
            },
        );
        assert_eq!(outcome, Err("busy"));
        assert!(tries > 3, "{tries} tries");
        assert!(patience.waited() >= Duration::from_millis(60));
        assert!(patience.waited() < Duration::from_secs(5));
    }

    #[test]
    fn an_error_of_another_kind_is_not_waited_out() {
        let mut patience = Patience::new(Duration::from_secs(60));
        let outcome: Result<(), &str> = patience.retry(|error| *error == "busy", || Err("broken"));
        assert_eq!(outcome, Err("broken"));
        assert!(patience.waited() < Duration::from_secs(1));
    }
}
