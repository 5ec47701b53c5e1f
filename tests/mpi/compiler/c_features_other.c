/* SPDX-License-Identifier: Apache-2.0 */
int shared_array[4] = {1, 2, 3, 4};
int weak_value = 8;
