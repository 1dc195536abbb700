import { expect, test } from "vitest";
import { Columns, count, plainAll, rising, signed, wandering } from "../src/data/columns";
import { columnsOf, varints, zigzag } from "./encode";

test("columns come apart where they were joined", () => {
  const columns = new Columns(columnsOf([[1, 2, 300], [], [7]]));
  expect([...plainAll(columns.next())]).toEqual([1, 2, 300]);
  expect(columns.next().length).toBe(0);
  expect([...plainAll(columns.next())]).toEqual([7]);
});

test("numbers keep all 53 bits", () => {
  const numbers = [0, 127, 128, 16383, 16384, 2 ** 31, 2 ** 32 + 5, 2 ** 47 + 511, Number.MAX_SAFE_INTEGER];
  expect([...plainAll(varints(numbers))]).toEqual(numbers);
  expect(count(varints(numbers))).toBe(numbers.length);
});

test("differences add up", () => {
  expect([...rising(varints([5, 0, 3]), new Int32Array(3))]).toEqual([5, 5, 8]);
  expect([...wandering(varints([5, -7, 3].map(zigzag)), new Float64Array(3))]).toEqual([5, -2, 1]);
  expect([...signed(varints([0, -1, 1, -(2 ** 40)].map(zigzag)), new Float64Array(4))]).toEqual([0, -1, 1, -(2 ** 40)]);
});

test("a truncated column ends without an error", () => {
  expect([...rising(varints([1, 300]).subarray(0, 2), new Int32Array(3))]).toEqual([1, 45, 0]);
});
