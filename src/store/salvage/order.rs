//! Telling the few numbers that stand in a wrong place from the many that rise.

/// The places of the numbers that must go so that the others rise: as few as can be.
pub(super) fn out_of_order(numbers: &[i64]) -> Vec<usize> {
    if numbers.is_sorted_by(|one, next| one < next) {
        return Vec::new();
    }
    // `tails[n]` is the place of the smallest number that a rising row of n + 1 numbers can end with.
    let mut tails: Vec<usize> = Vec::new();
    let mut before = vec![None; numbers.len()];
    for (place, number) in numbers.iter().enumerate() {
        let length = tails.partition_point(|tail| numbers[*tail] < *number);
        before[place] = length.checked_sub(1).map(|shorter| tails[shorter]);
        if length == tails.len() {
            tails.push(place);
        } else {
            tails[length] = place;
        }
    }
    let mut rises = vec![false; numbers.len()];
    let mut next = tails.last().copied();
    while let Some(place) = next {
        rises[place] = true;
        next = before[place];
    }
    (0..numbers.len()).filter(|place| !rises[*place]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_few_as_can_be_are_out_of_order() {
        assert_eq!(out_of_order(&[]), [0; 0]);
        assert_eq!(out_of_order(&[1, 2, 5, 9]), [0; 0]);
        assert_eq!(out_of_order(&[1, 70, 3, 4]), [1]);
        assert_eq!(out_of_order(&[1, 2, 2, 3]).len(), 1);
        assert_eq!(out_of_order(&[5, 6, 1, 7, 8]), [2]);
        assert_eq!(out_of_order(&[4, 3, 2, 1]).len(), 3);
    }
}
