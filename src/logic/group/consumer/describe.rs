//! ConsumerGroupDescribe of one group, as the log has it. Knows nothing of membership's rules.

use alloc::string::String;

use wire::group_records::{Assignment, ConsumerValue};

use crate::group::request::{ConsumerDescription, DescribedConsumer, Refusal};
use crate::group::state::Group;
use crate::group::turn::Turn;

impl Group {
    /// The group as ConsumerGroupDescribe shows it.
    pub(in crate::group) fn describe_consumers(
        &self,
        turn: &Turn<'_>,
    ) -> Result<ConsumerDescription, Refusal> {
        let state = &self.durable.consumers;
        if !state.exists() {
            return Err(Refusal::of_another_kind(&self.id));
        }
        let member = |(id, value): (&String, &ConsumerValue)| {
            let current = state.current(id);
            DescribedConsumer {
                member_id: id.clone(),
                said: value.clone(),
                epoch: current.epoch,
                assigned: current.assigned.clone(),
                target: state.target(id).map_or_else(Assignment::new, Clone::clone),
            }
        };
        Ok(ConsumerDescription {
            state: state.name(),
            epoch: state.metadata().epoch,
            target_epoch: state.target_epoch(),
            assignor: self.consumers.assignor(&turn.settings.consumer).name(),
            members: state.members().map(member).collect(),
        })
    }
}
