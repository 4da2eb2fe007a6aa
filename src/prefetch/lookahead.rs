use std::collections::VecDeque;

use crate::caught::caught;
use crate::dataset::{BatchPlan, Filler, PlanTerms, Planner, plan_batch};
use crate::error::{Error, Result};
use crate::storage::{Needs, Requested};

use super::steps::Begin;

/// Maximum number of batches that are planned ahead of the one that is filled next, and of their samples. Plans take 16
/// bytes per sample and more, which no budget counts, and time in which nothing else is planned.
const MOST_PLANS: usize = 1024;
const MOST_SAMPLES: usize = 1 << 18;

/// Batches that are planned before they are filled, so that their bytes can be requested. It plans as many as may be
/// requested ahead, also across the end of an epoch, and none if reading takes no time.
pub(super) struct Lookahead {
    terms: PlanTerms,
    items: VecDeque<Item>,
    /// Number of samples in them.
    samples: usize,
    /// Whether bytes must be requested; not known before the first batch.
    asks: Option<bool>,
    /// The epoch that is planned.
    epoch: u64,
    /// Whether this epoch has had a batch. An epoch without batches does not continue into the next.
    has_batches: bool,
}

#[expect(clippy::large_enum_variant, reason = "a box would be memory taken for each batch")]
enum Item {
    Batch(BatchPlan),
    End,
    Begun(u64),
    Failed(Error),
}

impl Lookahead {
    pub(super) fn new(terms: PlanTerms) -> Self {
        Self { terms, items: VecDeque::new(), samples: 0, asks: None, epoch: 0, has_batches: false }
    }

    /// Moves the planner to where planning resumes, unless it is there already.
    pub(super) fn begin(&mut self, begin: &Begin, planner: &mut dyn Planner) -> Result<()> {
        if let (Begin::Epoch(wanted), Some(Item::Begun(epoch))) = (begin, self.items.front())
            && epoch == wanted
        {
            self.items.pop_front();
            return Ok(());
        }
        self.items.clear();
        self.samples = 0;
        self.has_batches = false;
        match begin {
            Begin::Epoch(epoch) => {
                self.epoch = *epoch;
                caught(|| planner.begin_epoch(*epoch).map_err(Error::of_a_user))
            }
            Begin::At(state) => {
                self.epoch = state.epoch;
                caught(|| planner.seek(state).map_err(Error::of_a_user))
            }
        }
    }

    /// The next batch's plan; `None` ends the epoch. `runs_on` says whether the next epoch may begin before the trainer
    /// asks for it.
    pub(super) fn next(
        &mut self,
        planner: &mut dyn Planner,
        filler: &dyn Filler,
        spare: &mut Vec<BatchPlan>,
        runs_on: bool,
    ) -> Result<Option<BatchPlan>> {
        if self.asks != Some(false) {
            self.top_up(planner, filler, spare, runs_on);
        }
        match self.items.pop_front() {
            Some(Item::Batch(plan)) => {
                self.samples -= plan.positions.len();
                Ok(Some(plan))
            }
            Some(Item::End) => Ok(None),
            Some(Item::Failed(error)) => Err(error),
            Some(Item::Begun(_)) | None => plan(planner, spare, self.terms),
        }
    }

    /// Requests the bytes of a batch, unless they are requested already.
    pub(super) fn ask_for(&mut self, plan: &mut BatchPlan, filler: &dyn Filler) {
        ask(&mut self.asks, plan, filler);
    }

    fn top_up(&mut self, planner: &mut dyn Planner, filler: &dyn Filler, spare: &mut Vec<BatchPlan>, runs_on: bool) {
        if let Some(Item::Batch(plan)) = self.items.back_mut()
            && plan.requested.is_some()
        {
            // What the budget had no room for is requested as soon as it has.
            ask(&mut self.asks, plan, filler);
        }
        while self.has_room() {
            let item = match plan(planner, spare, self.terms) {
                Ok(Some(mut plan)) => {
                    self.ask_for(&mut plan, filler);
                    self.has_batches = true;
                    self.samples += plan.positions.len();
                    Item::Batch(plan)
                }
                Ok(None) => {
                    self.items.push_back(Item::End);
                    if !runs_on || !std::mem::take(&mut self.has_batches) || self.asks != Some(true) {
                        return;
                    }
                    self.epoch = self.epoch.wrapping_add(1);
                    match caught(|| planner.begin_epoch(self.epoch)) {
                        Ok(()) => Item::Begun(self.epoch),
                        // Beginning is tried again, and fails again, when the epoch is asked for.
                        Err(_) => return,
                    }
                }
                Err(error) => Item::Failed(error),
            };
            self.items.push_back(item);
        }
    }

    fn has_room(&self) -> bool {
        match self.items.back() {
            None => true,
            Some(Item::Begun(_)) => true,
            Some(Item::End | Item::Failed(_)) => false,
            Some(Item::Batch(plan)) => {
                self.items.len() < MOST_PLANS
                    && self.samples < MOST_SAMPLES
                    && self.asks == Some(true)
                    && plan.requested.as_ref().is_none_or(|requested| requested.has_room())
            }
        }
    }
}

/// Requests what is not requested yet of a batch's bytes. `asks`: as in [`Lookahead`].
fn ask(asks: &mut Option<bool>, plan: &mut BatchPlan, filler: &dyn Filler) {
    let is_whole = plan.requested.as_ref().is_some_and(Requested::is_whole);
    if is_whole || *asks == Some(false) {
        return;
    }
    let mut needs = Needs::default();
    let asked = caught(|| {
        filler.need(plan, &mut needs);
        Ok(())
    });
    *asks = Some(*asks == Some(true) || !needs.is_empty());
    // Bytes that a user's reader does not name are read when they are needed; also bytes that were not requested because
    // a listener panicked.
    if asked.is_ok() && !needs.is_empty() {
        plan.requested = caught(|| Ok(needs.request())).ok();
    }
}

fn plan(planner: &mut dyn Planner, spare: &mut Vec<BatchPlan>, terms: PlanTerms) -> Result<Option<BatchPlan>> {
    let mut plan = spare.pop().unwrap_or_default();
    if plan_batch(planner, &mut plan, terms)? {
        return Ok(Some(plan));
    }
    spare.push(plan);
    Ok(None)
}
